"""The manifests: what the operator takes, whole, and the same commands as everywhere else."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.containers import ROOT, read
from tests.programs import program

FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMAS = ROOT / "deploy" / "schemas" / "dask-kubernetes.json"
FILES = sorted(FOLDER.glob("*/*.yaml"))
KINDS = {"DaskCluster": "service/cluster.yaml", "DaskJob": "batch/job.yaml"}


def strict(node: Any) -> Any:
    """A schema that refuses unknown fields, as `kubectl apply` does; the plain one would drop them without a word."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: strict(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@cache
def validator(kind: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is missing: pip install check-jsonschema")
    schemas = strict(json.loads(SCHEMAS.read_text()))
    top = {"apiVersion": {"const": "kubernetes.dask.org/v1"}, "kind": {"const": kind}, "metadata": {"type": "object"}}
    own = {**schemas[kind], "properties": {**top, **schemas[kind]["properties"]}, "required": [*top, "spec"]}
    return jsonschema.Draft202012Validator({**own, "$defs": schemas["$defs"]})


def resource(kind: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((FOLDER / KINDS[kind]).read_text())
    assert found["kind"] == kind
    return found


def faults(kind: str, found: Any) -> list[str]:
    return [error.message for error in validator(kind).iter_errors(found)]


def cluster_of(found: dict[str, Any]) -> dict[str, Any]:
    return found["spec"]["cluster"]["spec"] if found["kind"] == "DaskJob" else found["spec"]


def pods(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cluster = cluster_of(found)
    yield cluster["scheduler"]["spec"]
    yield cluster["worker"]["spec"]
    if found["kind"] == "DaskJob":
        yield found["spec"]["job"]["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resource_fits_the_operators_schema(kind: str) -> None:
    assert faults(kind, resource(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_or_missing_field_is_found(kind: str) -> None:
    found = copy.deepcopy(resource(kind))
    worker = cluster_of(found)["worker"]["spec"]
    worker["containers"][0]["volumeMount"] = worker["containers"][0].pop("volumeMounts")
    del worker["containers"][0]["name"]
    del cluster_of(found)["scheduler"]["service"]
    told = " ".join(faults(kind, found))
    assert all(word in told for word in ("volumeMount", "'name' is a required", "'service' is a required"))


@pytest.mark.parametrize("kind", KINDS)
def test_pods_are_confined_and_have_what_they_mount(kind: str) -> None:
    for pod in pods(resource(kind)):
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_serve_are_started_again_whatever_their_exit_code(kind: str) -> None:
    cluster = cluster_of(resource(kind))
    assert {cluster[part]["spec"]["restartPolicy"] for part in ("scheduler", "worker")} == {"Always"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_scheduler_is_found_and_asked_where_it_listens(kind: str) -> None:
    found = resource(kind)
    scheduler = cluster_of(found)["scheduler"]
    (container,) = scheduler["spec"]["containers"]
    inside = {port["name"]: port["containerPort"] for port in container["ports"]}
    outside = {port["name"]: port["port"] for port in scheduler["service"]["ports"]}
    assert inside == outside == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert {port["targetPort"] for port in scheduler["service"]["ports"]} == set(inside)
    assert scheduler["service"]["selector"]["dask.org/cluster-name"] == found["metadata"]["name"]
    assert container["readinessProbe"]["httpGet"] == {"port": "http-dashboard", "path": "/distforest/health"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_nanny_stops_a_worker_before_the_kernel_does(kind: str) -> None:
    from dask.utils import parse_bytes

    (container,) = cluster_of(resource(kind))["worker"]["spec"]["containers"]
    (limit,) = [word.split("=")[1] for word in container["args"] if word.startswith("--memory-limit=")]
    assert 1.1 * parse_bytes(limit) < parse_bytes(container["resources"]["limits"]["memory"] + "B")
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schedulers_command_is_that_of_the_compose_file(kind: str) -> None:
    (container,) = cluster_of(resource(kind))["scheduler"]["spec"]["containers"]
    compose = read(ROOT / "docker-compose.yml")["services"]["scheduler"]
    assert container["args"] == compose["command"]
    assert container["image"] == compose["image"]


def test_the_job_is_the_one_of_the_compose_file() -> None:
    assert (FOLDER / "batch" / "helix.toml").read_text() == (ROOT / "deploy" / "jobs" / "helix.toml").read_text()
    (submit,) = resource("DaskJob")["spec"]["job"]["spec"]["containers"]
    assert submit["args"][:3] == ["distforest", "submit", "/jobs/helix.toml"]


@pytest.mark.parametrize("folder", ["service", "batch"])
def test_kustomize_builds_it_and_claims_exist(folder: str) -> None:
    kubectl = program("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is missing")
    built = subprocess.run(
        [kubectl, "kustomize", str(FOLDER / folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert built.returncode == 0, built.stderr
    found = list(yaml.safe_load_all(built.stdout))
    for dask in (one for one in found if one["kind"] in KINDS):
        assert faults(dask["kind"], dask) == []
    claims = yaml.safe_load((FOLDER / "service" / "storage.yaml").read_text())["metadata"]["name"]
    assert f"claimName: {claims}" in built.stdout
    if folder == "batch":
        (config,) = [one for one in found if one["kind"] == "ConfigMap"]
        assert (config["metadata"]["name"], list(config["data"])) == ("jobs", ["helix.toml"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_no_key_is_given_twice(file: Path) -> None:
    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [loader.construct_object(key) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{file}: {keys}"
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    assert list(yaml.load_all(file.read_text(), Loader))
