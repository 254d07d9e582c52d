"""In the shape of the course's prepare_submit.py: code and predictions of a folder as a zip."""

import os
import zipfile

names = [name for name in os.listdir(".") if name.endswith(".py")]
names += [f"predictions/{name}" for name in os.listdir("predictions")]

if __name__ == "__main__":
    with zipfile.ZipFile("cs224n_default_final_project_submission.zip", "w") as archive:
        for name in names:
            archive.write(name, os.path.join(".", name))
