# %% [markdown]
# # From Python
# Run the cells in an empty folder. The state folder `.wasp` is created there.
# The editor opens the cells of this file as a notebook.

# %%
import pandas as pd

from wasp import Dataset, WaspError, plan, run, runs

# %% [markdown]
# Plan the demo with a smaller budget. Nothing is spent.

# %%
small = {"privacy.epsilon": 2, "method.samples": 180, "student.kind": "linear"}
expected = plan("demo", small)
print(expected["epsilon_exact"], expected["problems"])

# %% [markdown]
# Run it. A second call reuses the run.

# %%
result = run("demo", small)
print(result.run_id, result.summary["accuracy"], result.summary["epsilon_spent"])

# %% [markdown]
# The texts as pandas, or as a pyarrow table; labels by the run's classifier. In a notebook, `result` shows the report.

# %%
print(result.texts[["text", "label", "label_soft"]].head())
print(result.table.schema.names)
print(result.predict(["My parcel has not arrived"]))

# %% [markdown]
# All runs, and a bundle to share.

# %%
print(runs()[["run_id", "state", "epsilon_spent"]])
print(result.export("out"))

# %% [markdown]
# Your own records: register them once; configurations name them. An error has the message of the command.

# %%
notes = pd.DataFrame(
    {
        "note": ["The parcel is late", "I was charged twice"] * 20,
        "kind": ["delivery", "billing"] * 20,
    }
)
notes.to_csv("notes.csv", index=False)
columns = {"text": "note", "label": "kind", "classes": ["billing", "delivery"]}
dataset = Dataset.register("notes", "notes.csv", **columns, declared_rows=40, epsilon_cap=4)
print(dataset.cap, dataset.spent, Dataset.get("notes") == dataset)
try:
    Dataset.register("notes", "notes.csv", text="note", label="kind")
except WaspError as error:
    print(error)
