"""YAML documents. A key that occurs twice is an error; PyYAML would take the last one without a word."""

import yaml


class Unreadable(Exception):
    pass


class Loader(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise Unreadable(f"“{name}” occurs twice in the mapping of line {node.start_mark.line + 1}.")
        return super().construct_mapping(node, deep)


def of_text(text):
    try:
        found = [document for document in yaml.load_all(text, Loader) if document is not None]
    except yaml.YAMLError as error:
        raise Unreadable(" ".join(str(error).split())) from error
    if not found:
        raise Unreadable("there is no document.")
    for document in found:
        if not (isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys()):
            raise Unreadable("a document has no apiVersion or no kind.")
    return found


def of_file(path):
    return of_text(path.read_text())
