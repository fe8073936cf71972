"""Knowledge distillation with a distribution tutor."""
