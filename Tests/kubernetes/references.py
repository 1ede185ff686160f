"""What one document says about another: selectors, ports and names. No schema sees these."""


def faults(documents):
    """References of these documents that lead to nothing, a sentence each."""
    by_kind = {}
    for document in documents:
        by_kind.setdefault(document["kind"], []).append(document)
    pods = [document["spec"]["template"] for document in by_kind.get("Deployment", [])]
    services = by_kind.get("Service", [])
    return [
        f"{document['kind']} {document['metadata']['name']}: {fault}"
        for document in documents
        for fault in CHECKS.get(document["kind"], lambda *_: [])(document.get("spec"), pods, services)]


def selects(labels, things):
    return any(labels.items() <= thing["metadata"]["labels"].items() for thing in things)


def ports(pods):
    return {port["name"] for pod in pods for container in pod["spec"]["containers"] for port in container["ports"]}


def pod_selector(labels, pods):
    if not selects(labels, pods):
        yield f"no pod has the labels {labels}."


def named_ports(names, pods):
    for name in sorted({name for name in names if isinstance(name, str)} - ports(pods)):
        yield f"no pod has a port {name}."


def deployment(spec, pods, _):
    yield from pod_selector(spec["selector"]["matchLabels"], pods)
    for spread in spec["template"]["spec"].get("topologySpreadConstraints", []):
        yield from pod_selector(spread["labelSelector"]["matchLabels"], pods)
    containers = spec["template"]["spec"]["containers"]
    probes = [container[name] for container in containers for name in container if name.endswith("Probe")]
    yield from named_ports([(probe.get("httpGet") or probe["tcpSocket"])["port"] for probe in probes], pods)


def service(spec, pods, _):
    yield from pod_selector(spec["selector"], pods)
    yield from named_ports([port.get("targetPort") for port in spec["ports"]], pods)


def network_policy(spec, pods, _):
    yield from pod_selector(spec["podSelector"]["matchLabels"], pods)
    yield from named_ports([port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]], pods)


def disruption_budget(spec, pods, _):
    yield from pod_selector(spec["selector"]["matchLabels"], pods)


def route(spec, _, services):
    for backend in [backend for rule in spec["rules"] for backend in rule["backendRefs"]]:
        if not any(
                backend["name"] == service["metadata"]["name"]
                and backend["port"] in [port["port"] for port in service["spec"]["ports"]] for service in services):
            yield f"no Service is {backend['name']} with port {backend['port']}."


def monitor(spec, _, services):
    labels = spec["selector"]["matchLabels"]
    selected = [service for service in services if selects(labels, [service])]
    names = {port["name"] for service in selected for port in service["spec"]["ports"]}
    for endpoint in spec["endpoints"]:
        if endpoint["port"] not in names:
            yield f"no Service with the labels {labels} has a port {endpoint['port']}."


CHECKS = {
    "Deployment": deployment,
    "HTTPRoute": route,
    "NetworkPolicy": network_policy,
    "PodDisruptionBudget": disruption_budget,
    "Service": service,
    "ServiceMonitor": monitor,
}
