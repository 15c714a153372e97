"""The operations of the API. Generated from its OpenAPI document by `npm run docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Literal, TypedDict

from . import models
from ._base import AsyncResource, Resource, Target
from ._pages import AsyncPages, Pages

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ListFindingsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"] | List[Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]]
    severity: Literal["critical", "high", "medium", "low"] | List[Literal["critical", "high", "medium", "low"]]
    ref: str | List[str]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"] | List[Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]]
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | List[Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"]]
    entity_id: str | List[str]
    subtree_of: str
    hierarchy: str
    owner: str | List[str]
    overdue: bool | Literal["true", "false"]
    repeat: bool | Literal["true", "false"]
    identified_from: str
    identified_to: str
    target_after: str
    target_before: str
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at", "target_date", "-target_date", "-severity", "severity", "-severity,target_date", "severity,-target_date"]
    expand: Literal["recommendations", "action_plans", "log", "entities"] | List[Literal["recommendations", "action_plans", "log", "entities"]]
    fields: str | List[str]


class GetFindingQuery(TypedDict, total=False):
    expand: Literal["recommendations", "action_plans", "log", "entities"] | List[Literal["recommendations", "action_plans", "log", "entities"]]
    fields: str | List[str]


class SummarizeFindingsQuery(TypedDict, total=False):
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"] | List[Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]]
    severity: Literal["critical", "high", "medium", "low"] | List[Literal["critical", "high", "medium", "low"]]
    ref: str | List[str]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"] | List[Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]]
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | List[Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"]]
    entity_id: str | List[str]
    subtree_of: str
    hierarchy: str
    owner: str | List[str]
    overdue: bool | Literal["true", "false"]
    repeat: bool | Literal["true", "false"]
    identified_from: str
    identified_to: str
    target_after: str
    target_before: str
    external_id: str | List[str]
    updated_since: str
    q: str
    group_by: Literal["severity", "status", "entity", "owner", "age_bucket"]


class ListRecommendationsOfFindingQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["submitted", "accepted", "rejected", "implemented", "verified", "superseded"] | List[Literal["submitted", "accepted", "rejected", "implemented", "verified", "superseded"]]
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at"]
    fields: str | List[str]


class ListActionPlansOfFindingQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"] | List[Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]]
    owner: str | List[str]
    overdue: bool | Literal["true", "false"]
    due_after: str
    due_before: str
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at", "due_date", "-due_date"]
    fields: str | List[str]


class ListLogOfFindingQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    kind: Literal["created", "note", "status_change", "due_date_change", "owner_change", "progress", "evidence_linked", "field_change", "validation", "escalation", "correction", "system"] | List[Literal["created", "note", "status_change", "due_date_change", "owner_change", "progress", "evidence_linked", "field_change", "validation", "escalation", "correction", "system"]]
    after_seq: int
    fields: str | List[str]


class ExportPoamQuery(TypedDict, total=False):
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"] | List[Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]]
    severity: Literal["critical", "high", "medium", "low"] | List[Literal["critical", "high", "medium", "low"]]
    ref: str | List[str]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"] | List[Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]]
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | List[Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"]]
    entity_id: str | List[str]
    subtree_of: str
    hierarchy: str
    owner: str | List[str]
    overdue: bool | Literal["true", "false"]
    repeat: bool | Literal["true", "false"]
    identified_from: str
    identified_to: str
    target_after: str
    target_before: str
    external_id: str | List[str]
    updated_since: str
    q: str


class ListRecommendationsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["submitted", "accepted", "rejected", "implemented", "verified", "superseded"] | List[Literal["submitted", "accepted", "rejected", "implemented", "verified", "superseded"]]
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at"]
    fields: str | List[str]
    finding_id: str | List[str]


class GetRecommendationQuery(TypedDict, total=False):
    fields: str | List[str]


class ListActionPlansQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"] | List[Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]]
    owner: str | List[str]
    overdue: bool | Literal["true", "false"]
    due_after: str
    due_before: str
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["-created_at", "created_at", "-updated_at", "updated_at", "due_date", "-due_date"]
    fields: str | List[str]
    finding_id: str | List[str]


class GetActionPlanQuery(TypedDict, total=False):
    fields: str | List[str]


class ListRemediationLogQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    kind: Literal["created", "note", "status_change", "due_date_change", "owner_change", "progress", "evidence_linked", "field_change", "validation", "escalation", "correction", "system"] | List[Literal["created", "note", "status_change", "due_date_change", "owner_change", "progress", "evidence_linked", "field_change", "validation", "escalation", "correction", "system"]]
    actor: str | List[str]
    since: int
    since_seq: int
    fields: str | List[str]


class GetLogCheckpointQuery(TypedDict, total=False):
    day: str


class ListLogCheckpointKeysAnswer(TypedDict):
    keys: List[Dict[str, Any]]


class ListEntitiesQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"] | List[Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]]
    status: Literal["draft", "active", "archived"] | List[Literal["draft", "active", "archived"]]
    parent_id: str | List[str]
    subtree_of: str
    hierarchy: str
    owner: str | List[str]
    risk_rating: Literal["critical", "high", "medium", "low"] | List[Literal["critical", "high", "medium", "low"]]
    next_audit_due_before: str
    external_id: str | List[str]
    connector_id: str | List[str]
    missing: bool | Literal["true", "false"]
    updated_since: str
    q: str
    sort: Literal["reference", "-reference", "name", "-name", "updated_at", "-updated_at", "next_audit_due", "-next_audit_due", "tree"]
    expand: Literal["ancestors", "nodes", "finding_counts"] | List[Literal["ancestors", "nodes", "finding_counts"]]
    fields: str | List[str]


class GetEntityQuery(TypedDict, total=False):
    expand: Literal["ancestors", "nodes", "finding_counts"] | List[Literal["ancestors", "nodes", "finding_counts"]]
    fields: str | List[str]


class ListChildrenOfEntityQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    depth: int
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"] | List[Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]]
    status: Literal["draft", "active", "archived"] | List[Literal["draft", "active", "archived"]]
    fields: str | List[str]


class ListAncestorsOfEntityQuery(TypedDict, total=False):
    fields: str | List[str]


class ListHierarchiesQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    fields: str | List[str]


class GetHierarchyQuery(TypedDict, total=False):
    fields: str | List[str]


class ListNodesQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    subtree_of: str
    depth: int
    status: Literal["active", "inactive"] | List[Literal["active", "inactive"]]
    as_of: str
    q: str
    sort: Literal["tree", "name", "-name", "node_key", "-node_key"]
    fields: str | List[str]


class GetNodeQuery(TypedDict, total=False):
    fields: str | List[str]


class GetTreeQuery(TypedDict, total=False):
    root: str
    depth: int
    status: Literal["active", "inactive"] | List[Literal["active", "inactive"]]
    as_of: str


class _DiffHierarchyQueryRequired(TypedDict):
    from_: int


class DiffHierarchyQuery(_DiffHierarchyQueryRequired, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    to: int


class ListTestProceduresQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    status: Literal["not_started", "in_progress", "in_review", "completed"] | List[Literal["not_started", "in_progress", "in_review", "completed"]]
    method: Literal["examine", "interview", "test"] | List[Literal["examine", "interview", "test"]]
    test_type: Literal["design", "operating_effectiveness"] | List[Literal["design", "operating_effectiveness"]]
    conclusion: Literal["effective", "ineffective", "no_population", "not_concluded"] | List[Literal["effective", "ineffective", "no_population", "not_concluded"]]
    entity_id: str | List[str]
    engagement_ref: str | List[str]
    control_ref: str | List[str]
    due_before: str
    due_after: str
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["reference", "-reference", "title", "-title", "updated_at", "-updated_at", "due_date", "-due_date"]
    fields: str | List[str]


class GetTestProcedureQuery(TypedDict, total=False):
    fields: str | List[str]


class ListPeopleQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    email: str | List[str]
    active: bool | Literal["true", "false"]
    external_id: str | List[str]
    updated_since: str
    q: str
    sort: Literal["name", "-name", "updated_at", "-updated_at"]
    fields: str | List[str]


class GetPersonQuery(TypedDict, total=False):
    fields: str | List[str]


class ListConnectorsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    key: str


class ListMissingRowsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]


class ListRunsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    connector: str
    status: Literal["queued", "fetching", "validating", "diffing", "needs_approval", "applying", "succeeded", "partial", "failed", "cancelled"] | List[Literal["queued", "fetching", "validating", "diffing", "needs_approval", "applying", "succeeded", "partial", "failed", "cancelled"]]


class ListRunChangesQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]
    op: Literal["create", "update", "move", "deactivate", "reactivate"] | List[Literal["create", "update", "move", "deactivate", "reactivate"]]


class ListRunErrorsQuery(TypedDict, total=False):
    limit: int
    separator: Literal["comma", "semicolon", "tab"]
    formulas: Literal["escape", "keep"]


class _ApproveRunBodyRequired(TypedDict):
    diff_hash: str


class ApproveRunBody(_ApproveRunBodyRequired, total=False):
    reason: str


class RollbackRunBody(TypedDict, total=False):
    reason: str


class _AttachEvidenceBodyRequired(TypedDict):
    test_procedures: List[str]


class AttachEvidenceBody(_AttachEvidenceBodyRequired, total=False):
    note: str


class ListReceiptKeysAnswer(TypedDict):
    keys: List[Dict[str, Any]]


class UploadEvidenceQuery(TypedDict, total=False):
    evidence_date: str
    period_start: str
    period_end: str
    source_system: str
    collection_method: Literal["manual", "api_export", "screenshot", "query", "report", "log"]
    collected_at: str
    classification: Literal["public", "internal", "confidential", "restricted"]
    description: str


class StartRunQuery(TypedDict, total=False):
    mode: Literal["dry_run", "apply"]
    override_safety: bool | Literal["true", "false"]
    reason: str


class Findings(Resource):
    def list(
        self,
        **query: Unpack[ListFindingsQuery],
    ) -> Pages[models.ExpandedFinding]:
        """List findings."""
        return self._pages("/api/v1/findings", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetFindingQuery],
    ) -> models.ExpandedFinding:
        """Read a finding."""
        return self._call("GET", "/api/v1/findings/{id}", {"id": id}, query=query)

    def create(
        self,
        body: models.CreateFinding,
        *,
        idempotency_key: str | None = None,
    ) -> models.DocumentedFinding:
        """Document a finding."""
        return self._call("POST", "/api/v1/findings", {}, body=body, idempotency_key=idempotency_key)

    def update(
        self,
        id: Target,
        body: models.UpdateFinding,
        *,
        if_match: str | None = None,
    ) -> models.Finding:
        """Change a finding."""
        return self._call("PATCH", "/api/v1/findings/{id}", {"id": id}, body=body, if_match=if_match)

    def summary(
        self,
        **query: Unpack[SummarizeFindingsQuery],
    ) -> models.FindingsSummary:
        """Count findings by severity, status, entity, owner or age."""
        return self._call("GET", "/api/v1/findings/summary", {}, query=query)

    def bulk(
        self,
        body: models.BulkFindings,
        *,
        idempotency_key: str | None = None,
    ) -> List[models.BulkResult]:
        """Document and change up to 500 findings."""
        return self._call("POST", "/api/v1/findings/bulk", {}, body=body, idempotency_key=idempotency_key)

    def transitions(
        self,
        id: Target,
    ) -> models.Transitions:
        """List the possible transitions of a finding and their requirements."""
        return self._call("GET", "/api/v1/findings/{id}/transitions", {"id": id})

    def change_status(
        self,
        id: Target,
        body: models.ChangeFindingStatus,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.Finding:
        """Change the status of a finding."""
        return self._call("POST", "/api/v1/findings/{id}/status", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    def recommendations(
        self,
        id: Target,
        **query: Unpack[ListRecommendationsOfFindingQuery],
    ) -> Pages[models.Recommendation]:
        """List the recommendations of a finding."""
        return self._pages("/api/v1/findings/{id}/recommendations", {"id": id}, query=query)

    def recommend(
        self,
        id: Target,
        body: models.CreateRecommendation,
        *,
        idempotency_key: str | None = None,
    ) -> models.Recommendation:
        """Submit a recommendation."""
        return self._call("POST", "/api/v1/findings/{id}/recommendations", {"id": id}, body=body, idempotency_key=idempotency_key)

    def action_plans(
        self,
        id: Target,
        **query: Unpack[ListActionPlansOfFindingQuery],
    ) -> Pages[models.ActionPlan]:
        """List the action plans of a finding."""
        return self._pages("/api/v1/findings/{id}/action-plans", {"id": id}, query=query)

    def propose_plan(
        self,
        id: Target,
        body: models.CreateActionPlan,
        *,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Propose an action plan."""
        return self._call("POST", "/api/v1/findings/{id}/action-plans", {"id": id}, body=body, idempotency_key=idempotency_key)

    def log(
        self,
        id: Target,
        **query: Unpack[ListLogOfFindingQuery],
    ) -> Pages[models.LogEntry]:
        """Read the tracker log of a finding, oldest first."""
        return self._pages("/api/v1/findings/{id}/log", {"id": id}, query=query)

    def add_log_entry(
        self,
        id: Target,
        body: models.CreateLogEntry,
        *,
        idempotency_key: str | None = None,
    ) -> models.LogEntry:
        """Add a note, an escalation, a correction, or a link to evidence."""
        return self._call("POST", "/api/v1/findings/{id}/log", {"id": id}, body=body, idempotency_key=idempotency_key)

    def verify_log(
        self,
        id: Target,
    ) -> models.LogVerification:
        """Verify the hash chain of a finding’s tracker log."""
        return self._call("GET", "/api/v1/findings/{id}/log/verify", {"id": id})

    def export_poam(
        self,
        **query: Unpack[ExportPoamQuery],
    ) -> models.OscalPoam:
        """Export findings and action plans as an OSCAL plan of action and milestones."""
        return self._call("GET", "/api/v1/exports/poam.json", {}, query=query)

    def edit(
        self,
        id: Target,
        change: Callable[[models.ExpandedFinding], models.UpdateFinding | None],
    ) -> models.Finding:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return self._edit("/api/v1/findings/{id}", id, change)


class AsyncFindings(AsyncResource):
    def list(
        self,
        **query: Unpack[ListFindingsQuery],
    ) -> AsyncPages[models.ExpandedFinding]:
        """List findings."""
        return self._pages("/api/v1/findings", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetFindingQuery],
    ) -> models.ExpandedFinding:
        """Read a finding."""
        return await self._call("GET", "/api/v1/findings/{id}", {"id": id}, query=query)

    async def create(
        self,
        body: models.CreateFinding,
        *,
        idempotency_key: str | None = None,
    ) -> models.DocumentedFinding:
        """Document a finding."""
        return await self._call("POST", "/api/v1/findings", {}, body=body, idempotency_key=idempotency_key)

    async def update(
        self,
        id: Target,
        body: models.UpdateFinding,
        *,
        if_match: str | None = None,
    ) -> models.Finding:
        """Change a finding."""
        return await self._call("PATCH", "/api/v1/findings/{id}", {"id": id}, body=body, if_match=if_match)

    async def summary(
        self,
        **query: Unpack[SummarizeFindingsQuery],
    ) -> models.FindingsSummary:
        """Count findings by severity, status, entity, owner or age."""
        return await self._call("GET", "/api/v1/findings/summary", {}, query=query)

    async def bulk(
        self,
        body: models.BulkFindings,
        *,
        idempotency_key: str | None = None,
    ) -> List[models.BulkResult]:
        """Document and change up to 500 findings."""
        return await self._call("POST", "/api/v1/findings/bulk", {}, body=body, idempotency_key=idempotency_key)

    async def transitions(
        self,
        id: Target,
    ) -> models.Transitions:
        """List the possible transitions of a finding and their requirements."""
        return await self._call("GET", "/api/v1/findings/{id}/transitions", {"id": id})

    async def change_status(
        self,
        id: Target,
        body: models.ChangeFindingStatus,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.Finding:
        """Change the status of a finding."""
        return await self._call("POST", "/api/v1/findings/{id}/status", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    def recommendations(
        self,
        id: Target,
        **query: Unpack[ListRecommendationsOfFindingQuery],
    ) -> AsyncPages[models.Recommendation]:
        """List the recommendations of a finding."""
        return self._pages("/api/v1/findings/{id}/recommendations", {"id": id}, query=query)

    async def recommend(
        self,
        id: Target,
        body: models.CreateRecommendation,
        *,
        idempotency_key: str | None = None,
    ) -> models.Recommendation:
        """Submit a recommendation."""
        return await self._call("POST", "/api/v1/findings/{id}/recommendations", {"id": id}, body=body, idempotency_key=idempotency_key)

    def action_plans(
        self,
        id: Target,
        **query: Unpack[ListActionPlansOfFindingQuery],
    ) -> AsyncPages[models.ActionPlan]:
        """List the action plans of a finding."""
        return self._pages("/api/v1/findings/{id}/action-plans", {"id": id}, query=query)

    async def propose_plan(
        self,
        id: Target,
        body: models.CreateActionPlan,
        *,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Propose an action plan."""
        return await self._call("POST", "/api/v1/findings/{id}/action-plans", {"id": id}, body=body, idempotency_key=idempotency_key)

    def log(
        self,
        id: Target,
        **query: Unpack[ListLogOfFindingQuery],
    ) -> AsyncPages[models.LogEntry]:
        """Read the tracker log of a finding, oldest first."""
        return self._pages("/api/v1/findings/{id}/log", {"id": id}, query=query)

    async def add_log_entry(
        self,
        id: Target,
        body: models.CreateLogEntry,
        *,
        idempotency_key: str | None = None,
    ) -> models.LogEntry:
        """Add a note, an escalation, a correction, or a link to evidence."""
        return await self._call("POST", "/api/v1/findings/{id}/log", {"id": id}, body=body, idempotency_key=idempotency_key)

    async def verify_log(
        self,
        id: Target,
    ) -> models.LogVerification:
        """Verify the hash chain of a finding’s tracker log."""
        return await self._call("GET", "/api/v1/findings/{id}/log/verify", {"id": id})

    async def export_poam(
        self,
        **query: Unpack[ExportPoamQuery],
    ) -> models.OscalPoam:
        """Export findings and action plans as an OSCAL plan of action and milestones."""
        return await self._call("GET", "/api/v1/exports/poam.json", {}, query=query)

    async def edit(
        self,
        id: Target,
        change: Callable[[models.ExpandedFinding], models.UpdateFinding | None],
    ) -> models.Finding:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return await self._edit("/api/v1/findings/{id}", id, change)


class Recommendations(Resource):
    def list(
        self,
        **query: Unpack[ListRecommendationsQuery],
    ) -> Pages[models.Recommendation]:
        """List recommendations."""
        return self._pages("/api/v1/recommendations", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetRecommendationQuery],
    ) -> models.Recommendation:
        """Read a recommendation."""
        return self._call("GET", "/api/v1/recommendations/{id}", {"id": id}, query=query)

    def update(
        self,
        id: Target,
        body: models.UpdateRecommendation,
        *,
        if_match: str | None = None,
    ) -> models.Recommendation:
        """Change a recommendation, or respond to it."""
        return self._call("PATCH", "/api/v1/recommendations/{id}", {"id": id}, body=body, if_match=if_match)

    def edit(
        self,
        id: Target,
        change: Callable[[models.Recommendation], models.UpdateRecommendation | None],
    ) -> models.Recommendation:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return self._edit("/api/v1/recommendations/{id}", id, change)


class AsyncRecommendations(AsyncResource):
    def list(
        self,
        **query: Unpack[ListRecommendationsQuery],
    ) -> AsyncPages[models.Recommendation]:
        """List recommendations."""
        return self._pages("/api/v1/recommendations", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetRecommendationQuery],
    ) -> models.Recommendation:
        """Read a recommendation."""
        return await self._call("GET", "/api/v1/recommendations/{id}", {"id": id}, query=query)

    async def update(
        self,
        id: Target,
        body: models.UpdateRecommendation,
        *,
        if_match: str | None = None,
    ) -> models.Recommendation:
        """Change a recommendation, or respond to it."""
        return await self._call("PATCH", "/api/v1/recommendations/{id}", {"id": id}, body=body, if_match=if_match)

    async def edit(
        self,
        id: Target,
        change: Callable[[models.Recommendation], models.UpdateRecommendation | None],
    ) -> models.Recommendation:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return await self._edit("/api/v1/recommendations/{id}", id, change)


class ActionPlans(Resource):
    def list(
        self,
        **query: Unpack[ListActionPlansQuery],
    ) -> Pages[models.ActionPlan]:
        """List action plans."""
        return self._pages("/api/v1/action-plans", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetActionPlanQuery],
    ) -> models.ActionPlan:
        """Read an action plan."""
        return self._call("GET", "/api/v1/action-plans/{id}", {"id": id}, query=query)

    def update(
        self,
        id: Target,
        body: models.UpdateActionPlan,
        *,
        if_match: str | None = None,
    ) -> models.ActionPlan:
        """Change an action plan."""
        return self._call("PATCH", "/api/v1/action-plans/{id}", {"id": id}, body=body, if_match=if_match)

    def change_status(
        self,
        id: Target,
        body: models.ChangeActionPlanStatus,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Update the status of an action plan."""
        return self._call("POST", "/api/v1/action-plans/{id}/status", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    def extend(
        self,
        id: Target,
        body: models.ExtendActionPlan,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Agree on a later due date."""
        return self._call("POST", "/api/v1/action-plans/{id}/extensions", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    def bulk(
        self,
        body: models.BulkActionPlans,
        *,
        idempotency_key: str | None = None,
    ) -> List[models.BulkResult]:
        """Propose and change up to 500 action plans."""
        return self._call("POST", "/api/v1/action-plans/bulk", {}, body=body, idempotency_key=idempotency_key)

    def edit(
        self,
        id: Target,
        change: Callable[[models.ActionPlan], models.UpdateActionPlan | None],
    ) -> models.ActionPlan:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return self._edit("/api/v1/action-plans/{id}", id, change)


class AsyncActionPlans(AsyncResource):
    def list(
        self,
        **query: Unpack[ListActionPlansQuery],
    ) -> AsyncPages[models.ActionPlan]:
        """List action plans."""
        return self._pages("/api/v1/action-plans", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetActionPlanQuery],
    ) -> models.ActionPlan:
        """Read an action plan."""
        return await self._call("GET", "/api/v1/action-plans/{id}", {"id": id}, query=query)

    async def update(
        self,
        id: Target,
        body: models.UpdateActionPlan,
        *,
        if_match: str | None = None,
    ) -> models.ActionPlan:
        """Change an action plan."""
        return await self._call("PATCH", "/api/v1/action-plans/{id}", {"id": id}, body=body, if_match=if_match)

    async def change_status(
        self,
        id: Target,
        body: models.ChangeActionPlanStatus,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Update the status of an action plan."""
        return await self._call("POST", "/api/v1/action-plans/{id}/status", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    async def extend(
        self,
        id: Target,
        body: models.ExtendActionPlan,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.ActionPlan:
        """Agree on a later due date."""
        return await self._call("POST", "/api/v1/action-plans/{id}/extensions", {"id": id}, body=body, if_match=if_match, idempotency_key=idempotency_key)

    async def bulk(
        self,
        body: models.BulkActionPlans,
        *,
        idempotency_key: str | None = None,
    ) -> List[models.BulkResult]:
        """Propose and change up to 500 action plans."""
        return await self._call("POST", "/api/v1/action-plans/bulk", {}, body=body, idempotency_key=idempotency_key)

    async def edit(
        self,
        id: Target,
        change: Callable[[models.ActionPlan], models.UpdateActionPlan | None],
    ) -> models.ActionPlan:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return await self._edit("/api/v1/action-plans/{id}", id, change)


class RemediationLog(Resource):
    def list(
        self,
        **query: Unpack[ListRemediationLogQuery],
    ) -> Pages[models.LogEntry]:
        """Read the tracker logs of all findings, oldest first."""
        return self._pages("/api/v1/remediation-log", {}, query=query)

    def checkpoint(
        self,
        **query: Unpack[GetLogCheckpointQuery],
    ) -> models.LogCheckpoint:
        """Read a signed checkpoint of the log."""
        return self._call("GET", "/api/v1/remediation-log/checkpoint", {}, query=query)

    def keys(
        self,
    ) -> ListLogCheckpointKeysAnswer:
        """Public keys that verify checkpoints (RFC 7517)."""
        return self._call("GET", "/api/v1/remediation-log/keys", {})


class AsyncRemediationLog(AsyncResource):
    def list(
        self,
        **query: Unpack[ListRemediationLogQuery],
    ) -> AsyncPages[models.LogEntry]:
        """Read the tracker logs of all findings, oldest first."""
        return self._pages("/api/v1/remediation-log", {}, query=query)

    async def checkpoint(
        self,
        **query: Unpack[GetLogCheckpointQuery],
    ) -> models.LogCheckpoint:
        """Read a signed checkpoint of the log."""
        return await self._call("GET", "/api/v1/remediation-log/checkpoint", {}, query=query)

    async def keys(
        self,
    ) -> ListLogCheckpointKeysAnswer:
        """Public keys that verify checkpoints (RFC 7517)."""
        return await self._call("GET", "/api/v1/remediation-log/keys", {})


class Entities(Resource):
    def list(
        self,
        **query: Unpack[ListEntitiesQuery],
    ) -> Pages[models.ExpandedAuditableEntity]:
        """List auditable entities."""
        return self._pages("/api/v1/entities", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetEntityQuery],
    ) -> models.ExpandedAuditableEntity:
        """Read an auditable entity."""
        return self._call("GET", "/api/v1/entities/{id}", {"id": id}, query=query)

    def children(
        self,
        id: Target,
        **query: Unpack[ListChildrenOfEntityQuery],
    ) -> Pages[models.AuditableEntity]:
        """List the descendants of an auditable entity, parents before their children."""
        return self._pages("/api/v1/entities/{id}/children", {"id": id}, query=query)

    def ancestors(
        self,
        id: Target,
        **query: Unpack[ListAncestorsOfEntityQuery],
    ) -> List[models.AuditableEntity]:
        """List the ancestors of an auditable entity, from the root down."""
        return self._call("GET", "/api/v1/entities/{id}/ancestors", {"id": id}, query=query)


class AsyncEntities(AsyncResource):
    def list(
        self,
        **query: Unpack[ListEntitiesQuery],
    ) -> AsyncPages[models.ExpandedAuditableEntity]:
        """List auditable entities."""
        return self._pages("/api/v1/entities", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetEntityQuery],
    ) -> models.ExpandedAuditableEntity:
        """Read an auditable entity."""
        return await self._call("GET", "/api/v1/entities/{id}", {"id": id}, query=query)

    def children(
        self,
        id: Target,
        **query: Unpack[ListChildrenOfEntityQuery],
    ) -> AsyncPages[models.AuditableEntity]:
        """List the descendants of an auditable entity, parents before their children."""
        return self._pages("/api/v1/entities/{id}/children", {"id": id}, query=query)

    async def ancestors(
        self,
        id: Target,
        **query: Unpack[ListAncestorsOfEntityQuery],
    ) -> List[models.AuditableEntity]:
        """List the ancestors of an auditable entity, from the root down."""
        return await self._call("GET", "/api/v1/entities/{id}/ancestors", {"id": id}, query=query)


class Hierarchies(Resource):
    def list(
        self,
        **query: Unpack[ListHierarchiesQuery],
    ) -> Pages[models.Hierarchy]:
        """List organizational hierarchies."""
        return self._pages("/api/v1/hierarchies", {}, query=query)

    def get(
        self,
        key: Target,
        **query: Unpack[GetHierarchyQuery],
    ) -> models.Hierarchy:
        """Read an organizational hierarchy."""
        return self._call("GET", "/api/v1/hierarchies/{key}", {"key": key}, query=query)

    def nodes(
        self,
        key: Target,
        **query: Unpack[ListNodesQuery],
    ) -> Pages[models.HierarchyNode]:
        """List the nodes of a hierarchy."""
        return self._pages("/api/v1/hierarchies/{key}/nodes", {"key": key}, query=query)

    def node(
        self,
        id: Target,
        **query: Unpack[GetNodeQuery],
    ) -> models.LookedUpHierarchyNode:
        """Read a node of any hierarchy by its id."""
        return self._call("GET", "/api/v1/hierarchy-nodes/{id}", {"id": id}, query=query)

    def tree(
        self,
        key: Target,
        **query: Unpack[GetTreeQuery],
    ) -> List[models.HierarchyTreeNode]:
        """Read a hierarchy as nested nodes."""
        return self._call("GET", "/api/v1/hierarchies/{key}/tree", {"key": key}, query=query)

    def diff(
        self,
        key: Target,
        **query: Unpack[DiffHierarchyQuery],
    ) -> Pages[models.HierarchyNodeChange]:
        """List the differences between two versions of a hierarchy."""
        return self._pages("/api/v1/hierarchies/{key}/diff", {"key": key}, query=query)


class AsyncHierarchies(AsyncResource):
    def list(
        self,
        **query: Unpack[ListHierarchiesQuery],
    ) -> AsyncPages[models.Hierarchy]:
        """List organizational hierarchies."""
        return self._pages("/api/v1/hierarchies", {}, query=query)

    async def get(
        self,
        key: Target,
        **query: Unpack[GetHierarchyQuery],
    ) -> models.Hierarchy:
        """Read an organizational hierarchy."""
        return await self._call("GET", "/api/v1/hierarchies/{key}", {"key": key}, query=query)

    def nodes(
        self,
        key: Target,
        **query: Unpack[ListNodesQuery],
    ) -> AsyncPages[models.HierarchyNode]:
        """List the nodes of a hierarchy."""
        return self._pages("/api/v1/hierarchies/{key}/nodes", {"key": key}, query=query)

    async def node(
        self,
        id: Target,
        **query: Unpack[GetNodeQuery],
    ) -> models.LookedUpHierarchyNode:
        """Read a node of any hierarchy by its id."""
        return await self._call("GET", "/api/v1/hierarchy-nodes/{id}", {"id": id}, query=query)

    async def tree(
        self,
        key: Target,
        **query: Unpack[GetTreeQuery],
    ) -> List[models.HierarchyTreeNode]:
        """Read a hierarchy as nested nodes."""
        return await self._call("GET", "/api/v1/hierarchies/{key}/tree", {"key": key}, query=query)

    def diff(
        self,
        key: Target,
        **query: Unpack[DiffHierarchyQuery],
    ) -> AsyncPages[models.HierarchyNodeChange]:
        """List the differences between two versions of a hierarchy."""
        return self._pages("/api/v1/hierarchies/{key}/diff", {"key": key}, query=query)


class TestProcedures(Resource):
    def list(
        self,
        **query: Unpack[ListTestProceduresQuery],
    ) -> Pages[models.TestProcedure]:
        """List test procedures."""
        return self._pages("/api/v1/test-procedures", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetTestProcedureQuery],
    ) -> models.TestProcedure:
        """Read a test procedure."""
        return self._call("GET", "/api/v1/test-procedures/{id}", {"id": id}, query=query)


class AsyncTestProcedures(AsyncResource):
    def list(
        self,
        **query: Unpack[ListTestProceduresQuery],
    ) -> AsyncPages[models.TestProcedure]:
        """List test procedures."""
        return self._pages("/api/v1/test-procedures", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetTestProcedureQuery],
    ) -> models.TestProcedure:
        """Read a test procedure."""
        return await self._call("GET", "/api/v1/test-procedures/{id}", {"id": id}, query=query)


class People(Resource):
    def list(
        self,
        **query: Unpack[ListPeopleQuery],
    ) -> Pages[models.Person]:
        """List people."""
        return self._pages("/api/v1/people", {}, query=query)

    def get(
        self,
        id: Target,
        **query: Unpack[GetPersonQuery],
    ) -> models.Person:
        """Read a person."""
        return self._call("GET", "/api/v1/people/{id}", {"id": id}, query=query)


class AsyncPeople(AsyncResource):
    def list(
        self,
        **query: Unpack[ListPeopleQuery],
    ) -> AsyncPages[models.Person]:
        """List people."""
        return self._pages("/api/v1/people", {}, query=query)

    async def get(
        self,
        id: Target,
        **query: Unpack[GetPersonQuery],
    ) -> models.Person:
        """Read a person."""
        return await self._call("GET", "/api/v1/people/{id}", {"id": id}, query=query)


class ConnectorOperations(Resource):
    def list(
        self,
        **query: Unpack[ListConnectorsQuery],
    ) -> Pages[models.Connector]:
        """List connectors."""
        return self._pages("/api/v1/connectors", {}, query=query)

    def get(
        self,
        id: Target,
    ) -> models.Connector:
        """Read a connector."""
        return self._call("GET", "/api/v1/connectors/{id}", {"id": id})

    def create(
        self,
        body: models.CreateConnector,
        *,
        idempotency_key: str | None = None,
    ) -> models.Connector:
        """Set up a connector."""
        return self._call("POST", "/api/v1/connectors", {}, body=body, idempotency_key=idempotency_key)

    def update(
        self,
        id: Target,
        body: models.ConnectorChange,
        *,
        if_match: str | None = None,
    ) -> models.Connector:
        """Change a connector."""
        return self._call("PATCH", "/api/v1/connectors/{id}", {"id": id}, body=body, if_match=if_match)

    def delete(
        self,
        id: Target,
    ) -> None:
        """Retire a connector."""
        return self._call("DELETE", "/api/v1/connectors/{id}", {"id": id})

    def missing(
        self,
        id: Target,
        **query: Unpack[ListMissingRowsQuery],
    ) -> Pages[models.MissingRow]:
        """List the rows that are missing from the source of a connector."""
        return self._pages("/api/v1/connectors/{id}/missing", {"id": id}, query=query)

    def edit(
        self,
        id: Target,
        change: Callable[[models.Connector], models.ConnectorChange | None],
    ) -> models.Connector:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return self._edit("/api/v1/connectors/{id}", id, change)


class AsyncConnectorOperations(AsyncResource):
    def list(
        self,
        **query: Unpack[ListConnectorsQuery],
    ) -> AsyncPages[models.Connector]:
        """List connectors."""
        return self._pages("/api/v1/connectors", {}, query=query)

    async def get(
        self,
        id: Target,
    ) -> models.Connector:
        """Read a connector."""
        return await self._call("GET", "/api/v1/connectors/{id}", {"id": id})

    async def create(
        self,
        body: models.CreateConnector,
        *,
        idempotency_key: str | None = None,
    ) -> models.Connector:
        """Set up a connector."""
        return await self._call("POST", "/api/v1/connectors", {}, body=body, idempotency_key=idempotency_key)

    async def update(
        self,
        id: Target,
        body: models.ConnectorChange,
        *,
        if_match: str | None = None,
    ) -> models.Connector:
        """Change a connector."""
        return await self._call("PATCH", "/api/v1/connectors/{id}", {"id": id}, body=body, if_match=if_match)

    async def delete(
        self,
        id: Target,
    ) -> None:
        """Retire a connector."""
        return await self._call("DELETE", "/api/v1/connectors/{id}", {"id": id})

    def missing(
        self,
        id: Target,
        **query: Unpack[ListMissingRowsQuery],
    ) -> AsyncPages[models.MissingRow]:
        """List the rows that are missing from the source of a connector."""
        return self._pages("/api/v1/connectors/{id}/missing", {"id": id}, query=query)

    async def edit(
        self,
        id: Target,
        change: Callable[[models.Connector], models.ConnectorChange | None],
    ) -> models.Connector:
        """Read, change and update, again if somebody was faster. `change` returns the new members, or None."""
        return await self._edit("/api/v1/connectors/{id}", id, change)


class RunOperations(Resource):
    def list(
        self,
        **query: Unpack[ListRunsQuery],
    ) -> Pages[models.SyncRun]:
        """List runs."""
        return self._pages("/api/v1/sync-runs", {}, query=query)

    def get(
        self,
        id: Target,
    ) -> models.SyncRun:
        """Read a run."""
        return self._call("GET", "/api/v1/sync-runs/{id}", {"id": id})

    def changes(
        self,
        id: Target,
        **query: Unpack[ListRunChangesQuery],
    ) -> Pages[models.SyncRunChange]:
        """List the changes of a run."""
        return self._pages("/api/v1/sync-runs/{id}/changes", {"id": id}, query=query)

    def errors(
        self,
        id: Target,
        **query: Unpack[ListRunErrorsQuery],
    ) -> Pages[models.SyncRunError]:
        """List the errors of a run."""
        return self._pages("/api/v1/sync-runs/{id}/errors", {"id": id}, query=query)

    def approve(
        self,
        id: Target,
        body: ApproveRunBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Approve the changes of a run."""
        return self._call("POST", "/api/v1/sync-runs/{id}/approve", {"id": id}, body=body, idempotency_key=idempotency_key)

    def cancel(
        self,
        id: Target,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Cancel a run."""
        return self._call("POST", "/api/v1/sync-runs/{id}/cancel", {"id": id}, idempotency_key=idempotency_key)

    def rollback(
        self,
        id: Target,
        body: RollbackRunBody | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Undo the changes of a run."""
        return self._call("POST", "/api/v1/sync-runs/{id}/rollback", {"id": id}, body=body, idempotency_key=idempotency_key)


class AsyncRunOperations(AsyncResource):
    def list(
        self,
        **query: Unpack[ListRunsQuery],
    ) -> AsyncPages[models.SyncRun]:
        """List runs."""
        return self._pages("/api/v1/sync-runs", {}, query=query)

    async def get(
        self,
        id: Target,
    ) -> models.SyncRun:
        """Read a run."""
        return await self._call("GET", "/api/v1/sync-runs/{id}", {"id": id})

    def changes(
        self,
        id: Target,
        **query: Unpack[ListRunChangesQuery],
    ) -> AsyncPages[models.SyncRunChange]:
        """List the changes of a run."""
        return self._pages("/api/v1/sync-runs/{id}/changes", {"id": id}, query=query)

    def errors(
        self,
        id: Target,
        **query: Unpack[ListRunErrorsQuery],
    ) -> AsyncPages[models.SyncRunError]:
        """List the errors of a run."""
        return self._pages("/api/v1/sync-runs/{id}/errors", {"id": id}, query=query)

    async def approve(
        self,
        id: Target,
        body: ApproveRunBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Approve the changes of a run."""
        return await self._call("POST", "/api/v1/sync-runs/{id}/approve", {"id": id}, body=body, idempotency_key=idempotency_key)

    async def cancel(
        self,
        id: Target,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Cancel a run."""
        return await self._call("POST", "/api/v1/sync-runs/{id}/cancel", {"id": id}, idempotency_key=idempotency_key)

    async def rollback(
        self,
        id: Target,
        body: RollbackRunBody | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.SyncRun:
        """Undo the changes of a run."""
        return await self._call("POST", "/api/v1/sync-runs/{id}/rollback", {"id": id}, body=body, idempotency_key=idempotency_key)


class Pushes(Resource):
    def entities(
        self,
        body: List[models.SentEntity],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push auditable entities."""
        return self._call("POST", "/api/v1/sync/entities", {}, body=body, idempotency_key=idempotency_key)

    def org_structure(
        self,
        key: Target,
        body: models.SentHierarchy,
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push an organizational hierarchy."""
        return self._call("POST", "/api/v1/sync/org-structures/{key}", {"key": key}, body=body, idempotency_key=idempotency_key)

    def test_procedures(
        self,
        body: List[models.SentTestProcedure],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push test procedures."""
        return self._call("POST", "/api/v1/sync/test-procedures", {}, body=body, idempotency_key=idempotency_key)

    def people(
        self,
        body: List[models.SentPerson],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push people."""
        return self._call("POST", "/api/v1/sync/people", {}, body=body, idempotency_key=idempotency_key)


class AsyncPushes(AsyncResource):
    async def entities(
        self,
        body: List[models.SentEntity],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push auditable entities."""
        return await self._call("POST", "/api/v1/sync/entities", {}, body=body, idempotency_key=idempotency_key)

    async def org_structure(
        self,
        key: Target,
        body: models.SentHierarchy,
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push an organizational hierarchy."""
        return await self._call("POST", "/api/v1/sync/org-structures/{key}", {"key": key}, body=body, idempotency_key=idempotency_key)

    async def test_procedures(
        self,
        body: List[models.SentTestProcedure],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push test procedures."""
        return await self._call("POST", "/api/v1/sync/test-procedures", {}, body=body, idempotency_key=idempotency_key)

    async def people(
        self,
        body: List[models.SentPerson],
        *,
        idempotency_key: str | None = None,
    ) -> models.PushResult:
        """Push people."""
        return await self._call("POST", "/api/v1/sync/people", {}, body=body, idempotency_key=idempotency_key)


class EvidenceOperations(Resource):
    def attach(
        self,
        id: Target,
        body: AttachEvidenceBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.EvidenceAttachmentReceipt:
        """Attach a file to test procedures."""
        return self._call("POST", "/api/v1/evidence/{id}/attachments", {"id": id}, body=body, idempotency_key=idempotency_key)

    def receipt_keys(
        self,
    ) -> ListReceiptKeysAnswer:
        """Public keys that verify receipts (RFC 7517)."""
        return self._call("GET", "/.well-known/jwks.json", {})


class AsyncEvidenceOperations(AsyncResource):
    async def attach(
        self,
        id: Target,
        body: AttachEvidenceBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.EvidenceAttachmentReceipt:
        """Attach a file to test procedures."""
        return await self._call("POST", "/api/v1/evidence/{id}/attachments", {"id": id}, body=body, idempotency_key=idempotency_key)

    async def receipt_keys(
        self,
    ) -> ListReceiptKeysAnswer:
        """Public keys that verify receipts (RFC 7517)."""
        return await self._call("GET", "/.well-known/jwks.json", {})
