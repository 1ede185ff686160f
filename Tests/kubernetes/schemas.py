"""Holds a document against the schema of its kind: Kubernetes' own for its kinds, ours in schemas/ for the others.

Ours are written by hand from the documentation of each kind. They have the fields that we use, and no other field is
allowed.
"""

import functools
import json
from pathlib import Path

import jsonschema
import kubernetes_validate
from kubernetes_validate import utils

OWN = Path(__file__).resolve().parent / "schemas"
# The oldest version that the manifests are for, and the newest one whose schemas the package has.
VERSIONS = ("1.31", kubernetes_validate.latest_version())

# The package reads its two megabytes of definitions again for each document.
utils.schema_contents = functools.cache(utils.schema_contents)


def faults(document):
    """The document's faults, a sentence each."""
    kind, version = document["kind"], document["apiVersion"]
    own = OWN / f"{kind}.{version.replace('/', '.')}.json"
    if own.exists():
        validator = jsonschema.Draft202012Validator(json.loads(own.read_text()))
        return [sentence(document, error) for error in sorted(validator.iter_errors(document), key=str)]
    # The package would take the schema of another group with the same first word.
    if "." in version.partition("/")[0] and not version.partition("/")[0].endswith(".k8s.io"):
        return [f"{kind} of {version} has no schema."]
    found = []
    for release in VERSIONS:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(sentence(document, error))
        except kubernetes_validate.SchemaNotFoundError:
            found.append(f"{kind} of {version} has no schema.")
    return sorted(set(found))


def sentence(document, error):
    place = ".".join(str(part) for part in error.absolute_path) or "the document"
    return f"{document['kind']}: {place}: {error.message}."
