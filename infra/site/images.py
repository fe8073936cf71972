"""Make the pictures of the documentation from the screenshots of the browser tests.

Run `make test-e2e` first, then `python infra/site/images.py`.
"""

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "tests" / "output" / "screenshots"
PICTURES = {
    "form": "form-1-filled",
    "run": "run-2-completed",
    "artifacts": "run-4-artifacts",
    "mlflow": "mlflow-1-run",
    "retry": "retry-2-menu",
    "approval": "approval-2-plan",
}
WIDTH, TALLEST, COLORS = 1000, 900, 96


def main() -> None:
    """Shrink each screenshot into docs/images."""
    for name, shot in PICTURES.items():
        with Image.open(SHOTS / f"{shot}.png") as picture:
            scale = WIDTH / picture.width
            small = picture.convert("RGB").resize((WIDTH, round(picture.height * scale)), Image.Resampling.LANCZOS)
        small = small.crop((0, 0, WIDTH, min(small.height, TALLEST)))
        target = ROOT / "docs" / "images" / f"{name}.png"
        small.quantize(COLORS).save(target, optimize=True)
        print(target.relative_to(ROOT), target.stat().st_size)


if __name__ == "__main__":
    main()
