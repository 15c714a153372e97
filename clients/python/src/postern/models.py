"""The resources of the API as TypedDict classes. Generated from its OpenAPI document by `npm run docs`.

Answers can have further members. With `fields`, a resource has only those that you asked for.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict


class ActionPlan(TypedDict):
    id: str
    reference: str
    finding_id: str
    recommendation_ids: List[str]
    external_id: str | None
    title: str
    description: str | None
    owner: PersonReference
    due_date: str
    original_due_date: str
    extension_count: int
    extensions: List[Extension]
    percent_complete: int
    status: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]
    priority: Literal["high", "medium", "low"] | None
    estimated_cost: Money | None
    external_url: str | None
    completed_date: str | None
    verified_date: str | None
    verified_by: PersonReference | None
    is_overdue: bool
    days_overdue: int
    days_late_vs_original: int
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class ActionPlanBulkItem(TypedDict, total=False):
    external_id: str | None
    title: str
    description: str | None
    owner: SentPersonPatch
    due_date: str
    extension_reason: str
    extension_approved_by: PersonReferenceInput
    recommendation_ids: List[str]
    percent_complete: int
    priority: Literal["high", "medium", "low"] | None
    estimated_cost: MoneyPatch | None
    external_url: str | None
    custom: CustomFieldsInput
    status: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]
    reason: str
    note: str
    verified_by: PersonReferenceInput
    evidence_refs: List[SentEvidenceReference]
    id: str
    version: int
    finding: str


class Actor(TypedDict):
    type: Literal["api_key", "user", "machine", "operator", "connector", "system"]
    id: str
    label: str


class ApiKeyCreatedBy(TypedDict):
    type: str
    id: str
    label: str


class ApiKeyRevokedBy(TypedDict):
    type: str
    id: str
    label: str


class ApiKey(TypedDict):
    id: str
    label: str
    note: str | None
    owner: KeyOwner | None
    masked: str
    state: Literal["active", "expired", "revoked"]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]
    allowed_addresses: List[str]
    created_by: ApiKeyCreatedBy
    created_at: str
    expires_at: str
    revoked_at: str | None
    revoked_by: ApiKeyRevokedBy | None
    revoke_reason: str | None
    last_used_at: str | None
    last_refused_at: str | None
    rotated_from: str | None
    pending_overlap: str | None
    version: int


class ApiKeyEventActor(TypedDict):
    type: str
    id: str
    label: str


class ApiKeyEvent(TypedDict):
    id: str
    type: Literal["created", "rotated", "updated", "revoked", "denied_expired", "denied_revoked", "denied_address", "denied_scope", "used_from_new_address"]
    at: str
    actor: ApiKeyEventActor | None
    address: str | None
    detail: Dict[str, Any]


class ApiKeyFilter(TypedDict, total=False):
    state: List[Literal["active", "expired", "revoked"]]
    label: str
    owner: str
    health: List[Literal["owner_left", "rotated_in_use", "expiring", "outside_policy", "never_used", "idle", "refused_often", "rotation_due", "unneeded_scopes", "wildcard", "no_address_limit"]]
    expires_before: str
    unused_since: str


class ApiKeyUsageDaysItem(TypedDict):
    day: str
    requests: int
    refusals: int


class ApiKeyUsageRoutesItem(TypedDict):
    route: str
    requests: int
    last_used_on: str


class ApiKeyUsageAddressesItem(TypedDict):
    address: str
    first_used_at: str
    last_used_at: str
    requests: int
    refusals: int


class ApiKeyUsageRefusedItem(TypedDict):
    code: str
    route: str | None
    refusals: int
    last_refused_at: str


class ApiKeyUsage(TypedDict):
    days: List[ApiKeyUsageDaysItem]
    routes: List[ApiKeyUsageRoutesItem]
    addresses: List[ApiKeyUsageAddressesItem]
    addresses_dropped: int
    refused: List[ApiKeyUsageRefusedItem]
    other_refusals: int
    last_refusals: List[RefusedRequest]
    right_sizing: RightSizing


class AuditEvent(TypedDict):
    id: str
    timestamp: str
    category: Literal["key", "key_policy", "evidence", "connector", "webhook", "directory", "tenant", "sign_in"]
    action: str
    outcome: Literal["success", "failure"]
    reason: str | None
    actor_type: Literal["person", "machine", "key", "operator", "system", "policy"]
    actor_id: str | None
    actor_name: str | None
    resource_type: str
    resource_id: str | None
    resource_name: str | None
    source_ip: str | None
    request_id: str | None
    position: str


class AuditableEntity(TypedDict):
    id: str
    reference: str
    external_id: str | None
    name: str
    description: str | None
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]
    status: Literal["draft", "active", "archived"]
    parent_id: str | None
    owner: PersonReference | None
    audit_lead: PersonReference | None
    executive: PersonReference | None
    inherent_risk: Risk | None
    residual_risk: Risk | None
    risk_assessed_at: str | None
    stale: bool
    audit_frequency_months: int | None
    last_audit_date: str | None
    last_audit_opinion: Literal["satisfactory", "needs_improvement", "unsatisfactory"] | None
    regulatory_next_due: str | None
    next_audit_due: str | None
    custom: CustomFields
    source: EntitySource | None
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class _BulkActionPlansRequired(TypedDict):
    items: List[ActionPlanBulkItem]


class BulkActionPlans(_BulkActionPlansRequired, total=False):
    mode: Literal["atomic", "best_effort"]


class _BulkFindingsRequired(TypedDict):
    items: List[FindingBulkItem]


class BulkFindings(_BulkFindingsRequired, total=False):
    mode: Literal["atomic", "best_effort"]


class BulkPreview(TypedDict):
    version: str
    active: int
    used_last_day: int
    keys: List[BulkPreviewKey]


class BulkPreviewKey(TypedDict):
    id: str
    label: str
    masked: str
    state: Literal["active", "expired", "revoked"]
    owner: KeyOwner | None
    expires_at: str
    last_used_at: str | None
    used_last_day: bool
    recent_addresses: List[str]


class BulkReceipt(TypedDict):
    id: str
    action: Literal["revoke", "shorten", "reassign", "relabel"]
    changed: int
    enforcement: Enforcement | None
    keys: List[BulkReceiptKey]


class BulkReceiptKey(TypedDict):
    id: str
    label: str
    masked: str
    state: Literal["active", "expired", "revoked"]
    expires_at: str
    version: int
    changed: bool
    enforced_at: str | None


class _BulkResultRequired(TypedDict):
    index: int
    status: int


class BulkResult(_BulkResultRequired, total=False):
    id: str
    reference: str
    version: int
    etag: str
    problem: Problem
    warnings: List[BulkWarning]


class BulkWarning(TypedDict):
    pointer: str
    code: Literal["unusable_address"]
    detail: str


class Change(TypedDict):
    kind: Literal["finding", "recommendation", "action_plan", "log_entry", "entity", "hierarchy", "hierarchy_node", "person", "test_procedure"]
    id: str
    change: ChangeAction
    version: int | None
    changed_at: str
    position: str


class _ChangeActionPlanStatusRequired(TypedDict):
    to: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]


class ChangeActionPlanStatus(_ChangeActionPlanStatusRequired, total=False):
    reason: str
    note: str
    percent_complete: int
    verified_by: PersonReferenceInput
    evidence_refs: List[SentEvidenceReference]


class _ChangeFindingStatusRequired(TypedDict):
    to: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]


class ChangeFindingStatus(_ChangeFindingStatusRequired, total=False):
    reason: str
    note: str
    approver: PersonReferenceInput
    accepted_until: str
    validated_by: PersonReferenceInput
    evidence_refs: List[SentEvidenceReference]


class _ChangeKeysRequired(TypedDict):
    action: Literal["revoke", "shorten", "reassign", "relabel"]
    ids: List[str]
    version: str


class ChangeKeys(_ChangeKeysRequired, total=False):
    reason: str
    expires_at: str
    owner: KeyOwnerChoice
    label: str


class ConnectorSecretsValue(TypedDict):
    set: bool
    updated_at: str


class _ConnectorRequired(TypedDict):
    id: str
    key: str
    name: str
    type: Literal["csv", "inline_json", "http_json", "scim", "scim_inbound", "ldap", "sql"]
    dataset: Literal["org_structure", "auditable_entities", "people", "test_procedures"]
    hierarchy: ConnectorHierarchy | None
    config: Dict[str, Any]
    secrets: Dict[str, ConnectorSecretsValue]
    mapping: List[MappingRule]
    schedule: ConnectorSchedule | None
    missing_policy: Literal["ignore", "flag", "deactivate"]
    safety: ConnectorSafety
    state: Literal["active", "paused", "error"]
    consecutive_failures: int
    last_run_at: str | None
    next_run_at: str | None
    created_at: str
    updated_at: str
    version: int


class Connector(_ConnectorRequired, total=False):
    authoritative: bool


class ConnectorChange(TypedDict, total=False):
    name: str
    config: CsvConnectorConfig | HttpJsonConnectorConfig | ScimConnectorConfig | LdapConnectorConfig | SqlConnectorConfig
    secrets: Dict[str, str | None]
    mapping: List[MappingRuleInput]
    schedule: ConnectorScheduleInput | None
    missing_policy: Literal["ignore", "flag", "deactivate"]
    authoritative: bool
    safety: ConnectorSafetyChange
    state: Literal["active", "paused"]


class ConnectorHierarchy(TypedDict):
    key: str
    name: str
    kind: Literal["legal_entity", "management", "process", "geography", "technology", "custom"]


class ConnectorHierarchyInput(TypedDict):
    key: str
    name: str
    kind: Literal["legal_entity", "management", "process", "geography", "technology", "custom"]


class ConnectorHttpAuthValue(TypedDict):
    kind: Literal["none"]


class ConnectorHttpAuthValue2(TypedDict):
    kind: Literal["basic"]
    username: str


class ConnectorHttpAuthValue3(TypedDict):
    kind: Literal["bearer"]


class ConnectorHttpAuthValue4(TypedDict):
    kind: Literal["header"]
    name: str


class _ConnectorHttpAuthValue5Required(TypedDict):
    kind: Literal["oauth_client_credentials"]
    token_url: str
    client_id: str


class ConnectorHttpAuthValue5(_ConnectorHttpAuthValue5Required, total=False):
    scope: str
    audience: str
    resource: str
    client_authentication: Literal["post", "basic"]


class ConnectorSafety(TypedDict):
    max_deactivate_pct: float
    max_deactivate: int
    min_rows: int
    max_change_pct: float


class ConnectorSafetyChange(TypedDict, total=False):
    max_deactivate_pct: float
    max_deactivate: int
    min_rows: int
    max_change_pct: float


class ConnectorSchedule(TypedDict):
    cron: str
    time_zone: str


class ConnectorScheduleInput(TypedDict):
    cron: str
    time_zone: str


class ConnectorTestRowsItemErrorsItem(TypedDict):
    field: str | None
    code: str
    message: str


class ConnectorTestRowsItem(TypedDict):
    row: int
    values: Dict[str, JsonValue]
    mapped: Dict[str, JsonValue] | None
    errors: List[ConnectorTestRowsItemErrorsItem]


class ConnectorTest(TypedDict):
    rows: List[ConnectorTestRowsItem]


class _CreateActionPlanRequired(TypedDict):
    title: str
    owner: PersonReferenceInput
    due_date: str


class CreateActionPlan(_CreateActionPlanRequired, total=False):
    external_id: str | None
    description: str | None
    recommendation_ids: List[str]
    priority: Literal["high", "medium", "low"] | None
    estimated_cost: MoneyInput | None
    external_url: str | None
    custom: CustomFieldsInput


class _CreateApiKeyRequired(TypedDict):
    label: str
    expires_in: Literal["30d", "90d", "1y", "custom"]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]


class CreateApiKey(_CreateApiKeyRequired, total=False):
    expires_at: str
    allowed_addresses: List[str]
    note: str | None
    owner: KeyOwnerChoice | None


class _CreateConnectorRequired(TypedDict):
    key: str
    name: str
    type: Literal["csv", "http_json", "scim", "ldap", "sql"]
    dataset: Literal["org_structure", "auditable_entities", "people", "test_procedures"]


class CreateConnector(_CreateConnectorRequired, total=False):
    hierarchy: ConnectorHierarchyInput | None
    config: CsvConnectorConfig | HttpJsonConnectorConfig | ScimConnectorConfig | LdapConnectorConfig | SqlConnectorConfig
    secrets: Dict[str, str]
    mapping: List[MappingRuleInput]
    schedule: ConnectorScheduleInput | None
    missing_policy: Literal["ignore", "flag", "deactivate"]
    authoritative: bool
    safety: CreateConnectorSafety


class CreateConnectorSafety(TypedDict, total=False):
    max_deactivate_pct: float
    max_deactivate: int
    min_rows: int
    max_change_pct: float


class _CreateFindingRequired(TypedDict):
    title: str
    condition: str
    severity: Literal["critical", "high", "medium", "low"]


class CreateFinding(_CreateFindingRequired, total=False):
    external_id: str | None
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    status: Literal["draft", "open"]
    entity_ids: List[str]
    owner: PersonReferenceInput | None
    identified_date: str
    target_date: str | None
    repeat_of_id: str | None
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponseInput | None
    custom: CustomFieldsInput


class _CreateLogEntryRequired(TypedDict):
    body: str


class CreateLogEntry(_CreateLogEntryRequired, total=False):
    kind: Literal["note", "escalation", "correction", "evidence_linked"]
    occurred_at: str
    corrects_seq: int
    on_behalf_of: str
    evidence_refs: List[SentEvidenceReference]


class _CreateRecommendationRequired(TypedDict):
    text: str


class CreateRecommendation(_CreateRecommendationRequired, total=False):
    external_id: str | None
    priority: Literal["high", "medium", "low"]
    custom: CustomFieldsInput


class _CreateWebhookRequired(TypedDict):
    url: str
    events: WebhookEvents


class CreateWebhook(_CreateWebhookRequired, total=False):
    description: str
    ca: str | None


class CreatedApiKeyCreatedBy(TypedDict):
    type: str
    id: str
    label: str


class CreatedApiKeyRevokedBy(TypedDict):
    type: str
    id: str
    label: str


class CreatedApiKey(TypedDict):
    id: str
    label: str
    note: str | None
    owner: KeyOwner | None
    masked: str
    state: Literal["active", "expired", "revoked"]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]
    allowed_addresses: List[str]
    created_by: CreatedApiKeyCreatedBy
    created_at: str
    expires_at: str
    revoked_at: str | None
    revoked_by: CreatedApiKeyRevokedBy | None
    revoke_reason: str | None
    last_used_at: str | None
    last_refused_at: str | None
    rotated_from: str | None
    pending_overlap: str | None
    version: int
    key: str


class CsvConnectorConfigAuth(TypedDict):
    kind: Literal["none"]


class CsvConnectorConfigAuth2(TypedDict):
    kind: Literal["basic"]
    username: str


class CsvConnectorConfigAuth3(TypedDict):
    kind: Literal["bearer"]


class CsvConnectorConfigAuth4(TypedDict):
    kind: Literal["header"]
    name: str


class CsvConnectorConfig(TypedDict, total=False):
    url: str
    auth: CsvConnectorConfigAuth | CsvConnectorConfigAuth2 | CsvConnectorConfigAuth3 | CsvConnectorConfigAuth4
    ca: str
    encoding: Literal["auto", "utf-8", "utf-16le", "utf-16be", "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1257", "iso-8859-2", "iso-8859-15", "macintosh", "shift_jis", "euc-kr", "gb18030", "big5"]
    delimiter: str
    columns: List[str]
    lenient_quotes: bool
    short_rows: bool
    sheet: str
    header_row: int


class CustodyEvent(TypedDict):
    id: str
    kind: Literal["received", "hashed", "scanned", "quarantined", "attached", "released", "reviewed", "rejected", "viewed", "legal_hold_set", "legal_hold_lifted", "purged"]
    detail: Dict[str, Any]
    occurred_at: str
    actor: Actor
    request_id: str


class DocumentedFinding(TypedDict):
    id: str
    reference: str
    external_id: str | None
    title: str
    condition: str
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    severity: Literal["critical", "high", "medium", "low"]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]
    entity_ids: List[str]
    owner: PersonReference | None
    identified_date: str
    target_date: str | None
    repeat_of_id: str | None
    is_repeat: bool
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponse | None
    is_overdue: bool
    age_days: int
    closed_date: str | None
    reopened_count: int
    accepted_until: str | None
    accepted_by: PersonReference | None
    is_acceptance_expired: bool
    validated_by: PersonReference | None
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int
    possible_repeats: List[PossibleRepeat]
    suggested_severity: Literal["critical", "high", "medium", "low"] | None


class Enforcement(TypedDict):
    gateways: int
    confirmed: int
    fenced: int
    waited_ms: float


class EntitySource(TypedDict):
    connector_id: str
    source_key: str
    first_seen_at: str
    last_seen_at: str
    missing_since: str | None


class EvidenceAttachment(TypedDict):
    test_procedure_id: str
    note: str | None
    attached_at: str
    attached_by: Actor


class EvidenceAttachmentReceiptAttachmentsItem(TypedDict):
    test_procedure_id: str
    note: str | None
    attached_at: str


class EvidenceAttachmentReceipt(TypedDict):
    id: str
    reference: str
    sha256: str
    test_procedures: List[str]
    note: str | None
    attached_at: str
    attachments: List[EvidenceAttachmentReceiptAttachmentsItem]
    jws: str


class EvidenceDecision(TypedDict):
    reason: str


class EvidenceDetails(TypedDict, total=False):
    evidence_date: str
    period_start: str
    period_end: str
    source_system: str
    collection_method: Literal["manual", "api_export", "screenshot", "query", "report", "log"]
    collected_at: str
    classification: Literal["public", "internal", "confidential", "restricted"]
    description: str
    collected_by: PersonReferenceInput
    query_text: str
    test_procedures: List[str]
    sha256: List[str]


class EvidenceFileLegalHold(TypedDict):
    reason: str
    set_at: str
    set_by: Actor


class EvidenceFile(TypedDict):
    id: str
    reference: str
    file_name: str
    content_type: str
    detected_content_type: str | None
    size_bytes: int
    sha256: str
    received_at: str
    evidence_date: str | None
    period_start: str | None
    period_end: str | None
    source_system: str | None
    collection_method: Literal["manual", "api_export", "screenshot", "query", "report", "log"] | None
    collected_by: PersonReference | None
    collected_at: str | None
    query_text: str | None
    classification: Literal["public", "internal", "confidential", "restricted"]
    description: str | None
    attachments: List[EvidenceAttachment]
    test_procedure_ids: List[str]
    version_of: str | None
    revision: int
    status: Literal["accepted", "quarantined", "released", "reviewed", "rejected", "superseded", "purged"]
    scan: Literal["not_configured", "clean", "infected", "limits_exceeded"]
    malware: str | None
    retention_until: str
    decided_at: str | None
    decided_by: Actor | None
    decision_reason: str | None
    legal_hold: EvidenceFileLegalHold | None
    created_by: Actor


class EvidencePolicy(TypedDict):
    retention_years: int
    changed_at: str | None
    changed_by: Actor | None
    version: int


class EvidenceReceipt(TypedDict):
    id: str
    reference: str
    file_name: str
    content_type: str
    detected_content_type: str | None
    size_bytes: int
    sha256: str
    received_at: str
    evidence_date: str
    test_procedures: List[str]
    version_of: str | None
    revision: int
    status: Literal["accepted", "quarantined"]
    scan: Literal["not_configured", "clean", "infected", "limits_exceeded"]
    malware: str | None
    retention_until: str
    jws: str


class EvidenceReference(TypedDict):
    evidence_id: str
    sha256: str
    size: int


class EvidenceReview(TypedDict):
    verdict: Literal["reviewed", "rejected"]
    reason: str


class ExpandedAuditableEntityAncestorsItem(TypedDict):
    id: str
    reference: str
    name: str


class ExpandedAuditableEntityNodesItem(TypedDict):
    hierarchy: str
    id: str
    node_key: str
    name: str


class _ExpandedAuditableEntityRequired(TypedDict):
    id: str
    reference: str
    external_id: str | None
    name: str
    description: str | None
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]
    status: Literal["draft", "active", "archived"]
    parent_id: str | None
    owner: PersonReference | None
    audit_lead: PersonReference | None
    executive: PersonReference | None
    inherent_risk: Risk | None
    residual_risk: Risk | None
    risk_assessed_at: str | None
    stale: bool
    audit_frequency_months: int | None
    last_audit_date: str | None
    last_audit_opinion: Literal["satisfactory", "needs_improvement", "unsatisfactory"] | None
    regulatory_next_due: str | None
    next_audit_due: str | None
    custom: CustomFields
    source: EntitySource | None
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class ExpandedAuditableEntity(_ExpandedAuditableEntityRequired, total=False):
    ancestors: List[ExpandedAuditableEntityAncestorsItem]
    nodes: List[ExpandedAuditableEntityNodesItem]
    open_findings: FindingCounts
    archived_with_open_findings: bool


class _ExpandedFindingEntitiesItemRequired(TypedDict):
    id: str
    name: str


class ExpandedFindingEntitiesItem(_ExpandedFindingEntitiesItemRequired, total=False):
    reference: str
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]
    status: Literal["draft", "active", "archived"]


class _ExpandedFindingRequired(TypedDict):
    id: str
    reference: str
    external_id: str | None
    title: str
    condition: str
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    severity: Literal["critical", "high", "medium", "low"]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]
    entity_ids: List[str]
    owner: PersonReference | None
    identified_date: str
    target_date: str | None
    repeat_of_id: str | None
    is_repeat: bool
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponse | None
    is_overdue: bool
    age_days: int
    closed_date: str | None
    reopened_count: int
    accepted_until: str | None
    accepted_by: PersonReference | None
    is_acceptance_expired: bool
    validated_by: PersonReference | None
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class ExpandedFinding(_ExpandedFindingRequired, total=False):
    recommendations: List[Recommendation]
    action_plans: List[ActionPlan]
    log: List[LogEntry]
    entities: List[ExpandedFindingEntitiesItem]


class ExplainRequest(TypedDict, total=False):
    request_id: str
    method: str
    path: str
    address: str


class ExplanationNow(TypedDict):
    decision: Literal["accepted", "refused"]
    code: str | None


class Explanation(TypedDict):
    decision: Literal["accepted", "refused"]
    status: int | None
    code: str | None
    route: str | None
    steps: List[ExplanationStep]
    address: str | None
    refusal: RefusedRequest | None
    now: ExplanationNow | None


class ExplanationStep(TypedDict):
    step: Literal["target", "state", "expiry", "tenant", "address", "route", "scope", "limit"]
    outcome: Literal["passed", "refused", "skipped", "unknown"]
    detail: str


class ExtendActionPlan(TypedDict):
    to: str
    reason: str
    approved_by: PersonReferenceInput


Extension = TypedDict("Extension", {
    "number": "int",
    "from": "str",
    "to": "str",
    "reason": "str",
    "approved_by": "PersonReference",
    "created_by": "Actor",
    "at": "str",
}, total=False)


class FindApiKey(TypedDict):
    key: str


class Finding(TypedDict):
    id: str
    reference: str
    external_id: str | None
    title: str
    condition: str
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    severity: Literal["critical", "high", "medium", "low"]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    status: Literal["draft", "open", "in_remediation", "pending_validation", "closed", "risk_accepted", "cancelled"]
    entity_ids: List[str]
    owner: PersonReference | None
    identified_date: str
    target_date: str | None
    repeat_of_id: str | None
    is_repeat: bool
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponse | None
    is_overdue: bool
    age_days: int
    closed_date: str | None
    reopened_count: int
    accepted_until: str | None
    accepted_by: PersonReference | None
    is_acceptance_expired: bool
    validated_by: PersonReference | None
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class FindingBulkItem(TypedDict, total=False):
    external_id: str | None
    title: str
    condition: str
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    severity: Literal["critical", "high", "medium", "low"]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    entity_ids: List[str]
    owner: SentPersonPatch | None
    identified_date: str
    target_date: str
    repeat_of_id: str | None
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponsePatch | None
    custom: CustomFieldsInput
    id: str
    version: int
    status: Literal["draft", "open"]


class FindingCounts(TypedDict):
    critical: int
    high: int
    medium: int
    low: int


class FindingsSummaryValueItemBySeverity(TypedDict):
    critical: int
    high: int
    medium: int
    low: int


class FindingsSummaryValueItem(TypedDict):
    key: str | None
    total: int
    overdue: int
    by_severity: FindingsSummaryValueItemBySeverity


class GithubLabel(TypedDict):
    token_hash: str
    token_type: str
    label: Literal["true_positive", "false_positive"]


class Hierarchy(TypedDict):
    id: str
    key: str
    name: str
    kind: Literal["legal_entity", "management", "process", "geography", "technology", "custom"]
    is_primary: bool
    version: int
    node_count: int
    created_by: Actor
    created_at: str
    updated_at: str


class HierarchyNode(TypedDict):
    id: str
    node_key: str
    parent_id: str | None
    name: str
    level_name: str | None
    depth: int
    head: PersonReference | None
    status: Literal["active", "inactive"]
    valid_from: str | None
    valid_to: str | None
    entity_ids: List[str]
    since_version: int


class HierarchyNodeChange(TypedDict):
    change: Literal["added", "changed"]
    fields: List[Literal["name", "level_name", "parent_id", "head", "status", "valid_from", "valid_to", "entity_ids"]]
    before: HierarchyNode | None
    after: HierarchyNode


class HierarchyTreeNode(TypedDict):
    id: str
    node_key: str
    parent_id: str | None
    name: str
    level_name: str | None
    depth: int
    head: PersonReference | None
    status: Literal["active", "inactive"]
    valid_from: str | None
    valid_to: str | None
    entity_ids: List[str]
    since_version: int
    children: List[HierarchyTreeNode]


class HttpJsonConnectorConfigPaging(TypedDict):
    kind: Literal["none"]


class _HttpJsonConnectorConfigPaging2Required(TypedDict):
    kind: Literal["page"]


class HttpJsonConnectorConfigPaging2(_HttpJsonConnectorConfigPaging2Required, total=False):
    parameter: str
    first: int
    step: int


class _HttpJsonConnectorConfigPaging3Required(TypedDict):
    kind: Literal["cursor"]
    next: str


class HttpJsonConnectorConfigPaging3(_HttpJsonConnectorConfigPaging3Required, total=False):
    parameter: str


class HttpJsonConnectorConfigPaging4(TypedDict):
    kind: Literal["link"]


class _HttpJsonConnectorConfigRequired(TypedDict):
    url: str


class HttpJsonConnectorConfig(_HttpJsonConnectorConfigRequired, total=False):
    auth: ConnectorHttpAuth
    ca: str
    items: str
    paging: HttpJsonConnectorConfigPaging | HttpJsonConnectorConfigPaging2 | HttpJsonConnectorConfigPaging3 | HttpJsonConnectorConfigPaging4


class KeyHealthReasonsItem(TypedDict):
    reason: Literal["owner_left", "rotated_in_use", "expiring", "outside_policy", "never_used", "idle", "refused_often", "rotation_due", "unneeded_scopes", "wildcard", "no_address_limit"]
    keys: int


class KeyHealth(TypedDict):
    reasons: List[KeyHealthReasonsItem]
    reviewed: bool


class KeyOwner(TypedDict):
    type: Literal["person", "team"]
    id: str | None
    name: str
    contact: str | None
    left_at: str | None


class KeyOwnerChoiceValue(TypedDict):
    type: Literal["person"]
    id: str


class KeyOwnerChoiceValue2(TypedDict):
    type: Literal["team"]
    name: str
    contact: str


class KeyPolicyChangedBy(TypedDict):
    type: str
    id: str
    label: str


class KeyPolicy(TypedDict):
    max_key_days: int
    required_addresses: List[str]
    forbid_wildcards: bool
    require_owner: bool
    most_keys: int | None
    rotation_days: int
    revoke_idle_days: int | None
    audit_retention_days: int
    changed_at: str | None
    changed_by: KeyPolicyChangedBy | None
    version: int


class KeyPolicyEventActor(TypedDict):
    type: str
    id: str
    label: str


class KeyPolicyEvent(TypedDict):
    version: int
    at: str
    actor: KeyPolicyEventActor
    max_key_days: int
    required_addresses: List[str]
    forbid_wildcards: bool
    require_owner: bool
    most_keys: int | None
    rotation_days: int
    revoke_idle_days: int | None
    audit_retention_days: int


class _LdapConnectorConfigRequired(TypedDict):
    host: str
    bind_dn: str
    base_dn: str


class LdapConnectorConfig(_LdapConnectorConfigRequired, total=False):
    port: int
    encryption: Literal["ldaps", "starttls"]
    ca: str
    filter: str
    scope: Literal["sub", "one"]
    attributes: List[str]
    key_attribute: str
    parent_filter: str
    page_size: int
    ignore_referrals: bool


class LeakReceipt(TypedDict):
    id: str
    received_at: str
    values: int


class LogCheckpoint(TypedDict):
    position: int
    root: str
    day: str
    jws: str


LogEntryChangesItem = TypedDict("LogEntryChangesItem", {
    "field": "str",
    "from": "Any",
    "to": "Any",
}, total=False)


class LogEntry(TypedDict):
    position: int
    seq: int
    finding_id: str
    action_plan_id: str | None
    recommendation_id: str | None
    kind: Literal["created", "note", "status_change", "due_date_change", "owner_change", "progress", "evidence_linked", "field_change", "validation", "escalation", "correction", "system"]
    body: str | None
    changes: List[LogEntryChangesItem]
    evidence_refs: List[EvidenceReference]
    corrects_seq: int | None
    occurred_at: str
    recorded_at: str
    actor: Actor
    on_behalf_of: str | None
    prev_hash: str | None
    hash: str


class LogVerificationFault(TypedDict):
    seq: int
    problem: Literal["content", "link", "order"]


class LogVerification(TypedDict):
    finding_id: str
    is_intact: bool
    entries: int
    last_hash: str | None
    fault: LogVerificationFault | None


class LookedUpHierarchyNode(TypedDict):
    id: str
    node_key: str
    parent_id: str | None
    name: str
    level_name: str | None
    depth: int
    head: PersonReference | None
    status: Literal["active", "inactive"]
    valid_from: str | None
    valid_to: str | None
    entity_ids: List[str]
    since_version: int
    hierarchy: str


class _ManagementResponseRequired(TypedDict):
    agreement: Literal["agree", "partially", "disagree"]


class ManagementResponse(_ManagementResponseRequired, total=False):
    text: str
    responded_at: str


class _ManagementResponseInputRequired(TypedDict):
    agreement: Literal["agree", "partially", "disagree"]


class ManagementResponseInput(_ManagementResponseInputRequired, total=False):
    text: str
    responded_at: str


class ManagementResponsePatch(TypedDict, total=False):
    agreement: Literal["agree", "partially", "disagree"]
    text: str | None
    responded_at: str | None


class MappingRuleTransformsItem(TypedDict):
    kind: Literal["trim"]


class MappingRuleTransformsItem2(TypedDict):
    kind: Literal["lower"]


class MappingRuleTransformsItem3(TypedDict):
    kind: Literal["upper"]


class MappingRuleTransformsItem4(TypedDict):
    kind: Literal["number"]


class MappingRuleTransformsItem5(TypedDict):
    kind: Literal["boolean"]


class MappingRuleTransformsItem6(TypedDict):
    kind: Literal["split"]
    separator: str


class MappingRuleTransformsItem7(TypedDict):
    kind: Literal["date"]
    format: Literal["YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "YYYYMMDD"]


class MappingRuleTransformsItem8(TypedDict):
    kind: Literal["map"]
    values: Dict[str, str]


class _MappingRuleRequired(TypedDict):
    target: str


class MappingRule(_MappingRuleRequired, total=False):
    source: str
    constant: str | float | bool
    default: str | float | bool
    transforms: List[MappingRuleTransformsItem | MappingRuleTransformsItem2 | MappingRuleTransformsItem3 | MappingRuleTransformsItem4 | MappingRuleTransformsItem5 | MappingRuleTransformsItem6 | MappingRuleTransformsItem7 | MappingRuleTransformsItem8]


class MappingRuleInputTransformsItem(TypedDict):
    kind: Literal["trim"]


class MappingRuleInputTransformsItem2(TypedDict):
    kind: Literal["lower"]


class MappingRuleInputTransformsItem3(TypedDict):
    kind: Literal["upper"]


class MappingRuleInputTransformsItem4(TypedDict):
    kind: Literal["number"]


class MappingRuleInputTransformsItem5(TypedDict):
    kind: Literal["boolean"]


class MappingRuleInputTransformsItem6(TypedDict):
    kind: Literal["split"]
    separator: str


class MappingRuleInputTransformsItem7(TypedDict):
    kind: Literal["date"]
    format: Literal["YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "YYYYMMDD"]


class MappingRuleInputTransformsItem8(TypedDict):
    kind: Literal["map"]
    values: Dict[str, str]


class _MappingRuleInputRequired(TypedDict):
    target: str


class MappingRuleInput(_MappingRuleInputRequired, total=False):
    source: str
    constant: str | float | bool
    default: str | float | bool
    transforms: List[MappingRuleInputTransformsItem | MappingRuleInputTransformsItem2 | MappingRuleInputTransformsItem3 | MappingRuleInputTransformsItem4 | MappingRuleInputTransformsItem5 | MappingRuleInputTransformsItem6 | MappingRuleInputTransformsItem7 | MappingRuleInputTransformsItem8]


class Member(TypedDict):
    id: str
    name: str
    roles: List[Literal["viewer", "auditor", "admin"]]
    first_seen_at: str
    last_seen_at: str
    left_at: str | None


class _MissingForTransitionRequired(TypedDict):
    code: str
    detail: str


class MissingForTransition(_MissingForTransitionRequired, total=False):
    pointer: str


class MissingRow(TypedDict):
    source_key: str
    dataset: Literal["org_structure", "auditable_entities", "people", "test_procedures"]
    missing_since: str


class Money(TypedDict):
    amount: str
    currency: str


class MoneyInput(TypedDict):
    amount: str
    currency: str


class MoneyPatch(TypedDict, total=False):
    amount: str
    currency: str


class OscalFindingTargetStatus(TypedDict):
    state: Literal["satisfied", "not-satisfied"]
    reason: Literal["pass", "fail", "other"]


OscalFindingTarget = TypedDict("OscalFindingTarget", {
    "type": "Literal[\"statement-id\", \"objective-id\"]",
    "target-id": "str",
    "description": "str",
    "status": "OscalFindingTargetStatus",
}, total=False)


OscalFindingRelatedObservationsItem = TypedDict("OscalFindingRelatedObservationsItem", {
    "observation-uuid": "str",
}, total=False)


OscalFindingRelatedRisksItem = TypedDict("OscalFindingRelatedRisksItem", {
    "risk-uuid": "str",
}, total=False)


OscalFinding = TypedDict("OscalFinding", {
    "uuid": "str",
    "title": "str",
    "description": "str",
    "props": "List[OscalProperty]",
    "target": "OscalFindingTarget",
    "related-observations": "List[OscalFindingRelatedObservationsItem]",
    "related-risks": "List[OscalFindingRelatedRisksItem]",
    "remarks": "str",
}, total=False)


class OscalMetadataRolesItem(TypedDict):
    id: str
    title: str


OscalMetadata = TypedDict("OscalMetadata", {
    "title": "str",
    "last-modified": "str",
    "version": "str",
    "oscal-version": "OscalVersion",
    "roles": "List[OscalMetadataRolesItem]",
    "parties": "List[OscalParty]",
    "remarks": "str",
}, total=False)


class OscalObservationRelevantEvidenceItem(TypedDict):
    description: str
    props: List[OscalProperty]


OscalObservation = TypedDict("OscalObservation", {
    "uuid": "str",
    "title": "str",
    "description": "str",
    "props": "List[OscalProperty]",
    "methods": "List[Literal[\"EXAMINE\", \"INTERVIEW\", \"TEST\", \"UNKNOWN\"]]",
    "types": "List[Literal[\"ssp-statement-issue\", \"control-objective\", \"mitigation\", \"discovery\", \"historic\"]]",
    "relevant-evidence": "List[OscalObservationRelevantEvidenceItem]",
    "collected": "str",
}, total=False)


OscalParty = TypedDict("OscalParty", {
    "uuid": "str",
    "type": "Literal[\"person\", \"organization\"]",
    "name": "str",
    "email-addresses": "List[str]",
    "remarks": "str",
}, total=False)


OscalPoamPlanOfActionAndMilestonesSystemId = TypedDict("OscalPoamPlanOfActionAndMilestonesSystemId", {
    "identifier-type": "str",
    "id": "str",
}, total=False)


OscalPoamPlanOfActionAndMilestones = TypedDict("OscalPoamPlanOfActionAndMilestones", {
    "uuid": "str",
    "metadata": "OscalMetadata",
    "system-id": "OscalPoamPlanOfActionAndMilestonesSystemId",
    "observations": "List[OscalObservation]",
    "risks": "List[OscalRisk]",
    "findings": "List[OscalFinding]",
    "poam-items": "List[OscalPoamItem]",
}, total=False)


OscalPoam = TypedDict("OscalPoam", {
    "plan-of-action-and-milestones": "OscalPoamPlanOfActionAndMilestones",
}, total=False)


OscalPoamItemRelatedFindingsItem = TypedDict("OscalPoamItemRelatedFindingsItem", {
    "finding-uuid": "str",
}, total=False)


OscalPoamItemRelatedObservationsItem = TypedDict("OscalPoamItemRelatedObservationsItem", {
    "observation-uuid": "str",
}, total=False)


OscalPoamItemRelatedRisksItem = TypedDict("OscalPoamItemRelatedRisksItem", {
    "risk-uuid": "str",
}, total=False)


OscalPoamItem = TypedDict("OscalPoamItem", {
    "uuid": "str",
    "title": "str",
    "description": "str",
    "props": "List[OscalProperty]",
    "related-findings": "List[OscalPoamItemRelatedFindingsItem]",
    "related-observations": "List[OscalPoamItemRelatedObservationsItem]",
    "related-risks": "List[OscalPoamItemRelatedRisksItem]",
    "remarks": "str",
}, total=False)


class OscalProperty(TypedDict):
    name: str
    ns: str
    value: str


class OscalResponseTasksItemTimingOnDate(TypedDict):
    date: str


OscalResponseTasksItemTiming = TypedDict("OscalResponseTasksItemTiming", {
    "on-date": "OscalResponseTasksItemTimingOnDate",
}, total=False)


OscalResponseTasksItemResponsibleRolesItem = TypedDict("OscalResponseTasksItemResponsibleRolesItem", {
    "role-id": "str",
    "party-uuids": "List[str]",
}, total=False)


OscalResponseTasksItem = TypedDict("OscalResponseTasksItem", {
    "uuid": "str",
    "type": "Literal[\"milestone\", \"action\"]",
    "title": "str",
    "props": "List[OscalProperty]",
    "timing": "OscalResponseTasksItemTiming",
    "responsible-roles": "List[OscalResponseTasksItemResponsibleRolesItem]",
}, total=False)


class _OscalResponseRequired(TypedDict):
    uuid: str
    lifecycle: Literal["recommendation", "planned", "completed"]
    title: str
    description: str
    props: List[OscalProperty]


class OscalResponse(_OscalResponseRequired, total=False):
    tasks: List[OscalResponseTasksItem]
    remarks: str


OscalRiskCharacterizationsItemOriginActorsItem = TypedDict("OscalRiskCharacterizationsItemOriginActorsItem", {
    "type": "Literal[\"tool\", \"assessment-platform\", \"party\"]",
    "actor-uuid": "str",
}, total=False)


class OscalRiskCharacterizationsItemOrigin(TypedDict):
    actors: List[OscalRiskCharacterizationsItemOriginActorsItem]


class OscalRiskCharacterizationsItemFacetsItem(TypedDict):
    name: str
    system: str
    value: str


class OscalRiskCharacterizationsItem(TypedDict):
    origin: OscalRiskCharacterizationsItemOrigin
    facets: List[OscalRiskCharacterizationsItemFacetsItem]


class OscalRiskRiskLog(TypedDict):
    entries: List[OscalRiskLogEntry]


OscalRiskRelatedObservationsItem = TypedDict("OscalRiskRelatedObservationsItem", {
    "observation-uuid": "str",
}, total=False)


OscalRisk = TypedDict("OscalRisk", {
    "uuid": "str",
    "title": "str",
    "description": "str",
    "statement": "str",
    "props": "List[OscalProperty]",
    "status": "OscalRiskStatus",
    "characterizations": "List[OscalRiskCharacterizationsItem]",
    "deadline": "str",
    "remediations": "List[OscalResponse]",
    "risk-log": "OscalRiskRiskLog",
    "related-observations": "List[OscalRiskRelatedObservationsItem]",
}, total=False)


OscalRiskLogEntryRelatedResponsesItem = TypedDict("OscalRiskLogEntryRelatedResponsesItem", {
    "response-uuid": "str",
}, total=False)


OscalRiskLogEntry = TypedDict("OscalRiskLogEntry", {
    "uuid": "str",
    "title": "str",
    "description": "str",
    "start": "str",
    "props": "List[OscalProperty]",
    "status-change": "OscalRiskStatus",
    "related-responses": "List[OscalRiskLogEntryRelatedResponsesItem]",
}, total=False)


class Person(TypedDict):
    id: str
    external_id: str
    name: str
    email: str | None
    title: str | None
    active: bool
    updated_at: str
    version: int


class PersonPatch(TypedDict, total=False):
    person_id: str | None
    email: str | None
    name: str | None


class PersonReference(TypedDict, total=False):
    person_id: str
    email: str
    name: str


class PersonReferenceInput(TypedDict, total=False):
    person_id: str
    email: str
    name: str


class PossibleRepeat(TypedDict):
    id: str
    reference: str
    title: str
    severity: Literal["critical", "high", "medium", "low"]
    closed_date: str
    similarity: float


class PreviewBulk(TypedDict, total=False):
    ids: List[str]
    filter: ApiKeyFilter


class PrincipalTenant(TypedDict):
    id: str
    name: str


class PrincipalTenantsItem(TypedDict):
    id: str
    name: str
    roles: List[Literal["viewer", "auditor", "admin"]]


class Principal(TypedDict):
    kind: Literal["api_key", "user", "machine"]
    id: str
    label: str
    tenant: PrincipalTenant | None
    tenants: List[PrincipalTenantsItem]
    granted: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync"]]
    roles: List[Literal["viewer", "auditor", "admin"]]
    masked: str | None
    expires_at: str | None


class _ProblemErrorsItemRequired(TypedDict):
    code: str
    detail: str


class ProblemErrorsItem(_ProblemErrorsItemRequired, total=False):
    pointer: str
    parameter: str


class _ProblemRequired(TypedDict):
    type: str
    title: str
    status: int
    code: str
    instance: str


class Problem(_ProblemRequired, total=False):
    detail: str
    errors: List[ProblemErrorsItem]
    required_scope: str
    granted_scopes: List[str]
    documentation: str
    allowed: List[str]


class _PushResultCountsRequired(TypedDict):
    fetched: int
    created: int
    updated: int
    unchanged: int


class PushResultCounts(_PushResultCountsRequired, total=False):
    deactivated: int


class _PushResultRequired(TypedDict):
    run_id: str
    status: Literal["succeeded", "failed"]
    counts: PushResultCounts


class PushResult(_PushResultRequired, total=False):
    warnings: List[PushWarning]


class PushWarning(TypedDict):
    pointer: str
    code: Literal["residual_above_inherent", "unusable_address"]
    detail: str


class Recommendation(TypedDict):
    id: str
    reference: str
    finding_id: str
    external_id: str | None
    text: str
    priority: Literal["high", "medium", "low"]
    response: Literal["pending", "accepted", "partially_accepted", "rejected"]
    response_rationale: str | None
    status: Literal["submitted", "accepted", "rejected", "implemented", "verified", "superseded"]
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class RefusedRequest(TypedDict):
    at: str
    request_id: str
    method: str
    route: str | None
    address: str
    code: str


class ReportLeakedKeys(TypedDict):
    keys: List[str]


class RevokeApiKey(TypedDict, total=False):
    reason: str


class RevokedApiKeyCreatedBy(TypedDict):
    type: str
    id: str
    label: str


class RevokedApiKeyRevokedBy(TypedDict):
    type: str
    id: str
    label: str


class RevokedApiKey(TypedDict):
    id: str
    label: str
    note: str | None
    owner: KeyOwner | None
    masked: str
    state: Literal["active", "expired", "revoked"]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]
    allowed_addresses: List[str]
    created_by: RevokedApiKeyCreatedBy
    created_at: str
    expires_at: str
    revoked_at: str | None
    revoked_by: RevokedApiKeyRevokedBy | None
    revoke_reason: str | None
    last_used_at: str | None
    last_refused_at: str | None
    rotated_from: str | None
    pending_overlap: str | None
    version: int
    enforcement: Enforcement | None


class RightSizing(TypedDict):
    counted_from: str
    complete: bool
    routes_callable: int
    routes_used: int
    unneeded_scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync"]]
    suggested_scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync"]] | None


class Risk(TypedDict):
    rating: Literal["critical", "high", "medium", "low"]
    score: float


class RiskInput(TypedDict):
    rating: Literal["critical", "high", "medium", "low"]
    score: float


class RotateApiKey(TypedDict, total=False):
    overlap: str
    overlap_from: Literal["rotation", "first_use"]
    expires_in: Literal["30d", "90d", "1y"]
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]


class RotateWebhookSecret(TypedDict, total=False):
    overlap_hours: int


class SafetyBreach(TypedDict):
    limit: Literal["max_deactivate_pct", "max_deactivate", "min_rows", "max_change_pct"]
    allowed: float
    actual: float


class _ScimConnectorConfigRequired(TypedDict):
    url: str


class ScimConnectorConfig(_ScimConnectorConfigRequired, total=False):
    auth: ConnectorHttpAuth
    ca: str
    resource: Literal["Users", "Groups"]
    filter: str
    page_size: int


class SendWebhook(TypedDict, total=False):
    delivery_id: str


class _SentEntityRequired(TypedDict):
    external_id: str
    name: str
    type: Literal["legal_entity", "business_unit", "department", "process", "product", "it_system", "location", "vendor", "project", "regulation", "other"]


class SentEntity(_SentEntityRequired, total=False):
    parent_external_id: str | None
    description: str | None
    status: Literal["draft", "active", "archived"]
    owner: SentPersonReference | None
    audit_lead: SentPersonReference | None
    executive: SentPersonReference | None
    inherent_risk: RiskInput | None
    residual_risk: RiskInput | None
    risk_assessed_at: str | None
    audit_frequency_months: int | None
    last_audit_date: str | None
    last_audit_opinion: Literal["satisfactory", "needs_improvement", "unsatisfactory"] | None
    regulatory_next_due: str | None
    custom: CustomFieldsInput | None


class _SentEvidenceReferenceRequired(TypedDict):
    sha256: str


class SentEvidenceReference(_SentEvidenceReferenceRequired, total=False):
    evidence_id: str
    id: str
    size: int
    size_bytes: int


class _SentHierarchyRequired(TypedDict):
    name: str
    kind: Literal["legal_entity", "management", "process", "geography", "technology", "custom"]
    mode: Literal["full", "partial"]
    nodes: List[SentNode]


class SentHierarchy(_SentHierarchyRequired, total=False):
    is_primary: bool


class _SentNodeRequired(TypedDict):
    node_key: str
    name: str


class SentNode(_SentNodeRequired, total=False):
    parent_key: str | None
    level_name: str | None
    head: SentPersonReference | None
    status: Literal["active", "inactive"]
    valid_from: str | None
    valid_to: str | None
    entities: List[str]


class _SentPersonRequired(TypedDict):
    external_id: str
    name: str


class SentPerson(_SentPersonRequired, total=False):
    email: str | None
    title: str | None
    active: bool


class SentPersonPatch(TypedDict, total=False):
    person_id: str | None
    email: str | None
    name: str | None


class SentPersonReference(TypedDict, total=False):
    person_id: str
    email: str
    name: str


class _SentTestProcedureRequired(TypedDict):
    external_id: str
    title: str


class SentTestProcedure(_SentTestProcedureRequired, total=False):
    control_ref: str | None
    objective: str | None
    procedure_text: str | None
    method: Literal["examine", "interview", "test"] | None
    test_type: Literal["design", "operating_effectiveness"] | None
    entities: List[str]
    engagement_ref: str | None
    period_start: str | None
    period_end: str | None
    population_size: int | None
    sample_size: int | None
    tester: SentPersonReference | None
    reviewer: SentPersonReference | None
    due_date: str | None
    status: Literal["not_started", "in_progress", "in_review", "completed"]
    conclusion: Literal["effective", "ineffective", "no_population", "not_concluded"] | None
    custom: CustomFieldsInput | None


class _SqlConnectorConfigRequired(TypedDict):
    engine: Literal["postgres", "mariadb"]
    host: str
    database: str
    username: str
    view: str


class SqlConnectorConfig(_SqlConnectorConfigRequired, total=False):
    port: int
    encryption: Literal["tls", "none"]
    ca: str
    schema: str
    columns: List[str]


class SyncRunFailure(TypedDict):
    code: str
    message: str


class _SyncRunRequired(TypedDict):
    id: str
    connector_id: str | None
    connector_key: str | None
    mode: Literal["dry_run", "apply", "rollback"]
    trigger: Literal["api", "schedule", "upload", "push"]
    status: Literal["queued", "fetching", "validating", "diffing", "needs_approval", "applying", "succeeded", "partial", "failed", "cancelled"]
    counts: SyncRunCounts
    breaches: List[SafetyBreach]
    failure: SyncRunFailure | None
    diff_hash: str | None
    input_sha256: str | None
    rollback_of: str | None
    reason: str | None
    attempt: int
    created_by: Actor
    created_at: str
    started_at: str | None
    finished_at: str | None


class SyncRun(_SyncRunRequired, total=False):
    details_cleared_at: str


class SyncRunChange(TypedDict):
    seq: int
    op: Literal["create", "update", "move", "deactivate", "reactivate"]
    source_key: str
    before: Dict[str, JsonValue] | None
    after: Dict[str, JsonValue] | None
    applied_at: str | None
    error: str | None


class SyncRunCounts(TypedDict):
    fetched: int
    valid: int
    invalid: int
    created: int
    updated: int
    moved: int
    reactivated: int
    deactivated: int
    unchanged: int
    missing: int
    applied: int


class SyncRunError(TypedDict):
    seq: int
    row: int | None
    source_key: str | None
    field: str | None
    code: str
    message: str
    value_excerpt: str | None
    severity: Literal["error", "warning"]


class TestProcedure(TypedDict):
    id: str
    reference: str
    external_id: str
    title: str
    control_ref: str | None
    objective: str | None
    procedure_text: str | None
    method: Literal["examine", "interview", "test"] | None
    test_type: Literal["design", "operating_effectiveness"] | None
    entity_ids: List[str]
    engagement_ref: str | None
    period_start: str | None
    period_end: str | None
    population_size: int | None
    sample_size: int | None
    tester: PersonReference | None
    reviewer: PersonReference | None
    due_date: str | None
    status: Literal["not_started", "in_progress", "in_review", "completed"]
    conclusion: Literal["effective", "ineffective", "no_population", "not_concluded"] | None
    evidence_count: int
    custom: CustomFields
    created_by: Actor
    created_at: str
    updated_at: str
    version: int


class TransitionsTransitionsItem(TypedDict):
    to: str
    requires: List[str]
    missing: List[MissingForTransition]


class Transitions(TypedDict):
    status: str
    transitions: List[TransitionsTransitionsItem]


class UpdateActionPlan(TypedDict, total=False):
    external_id: str | None
    title: str
    description: str | None
    owner: PersonPatch
    due_date: str
    extension_reason: str
    extension_approved_by: PersonReferenceInput
    recommendation_ids: List[str]
    percent_complete: int
    priority: Literal["high", "medium", "low"] | None
    estimated_cost: MoneyPatch | None
    external_url: str | None
    custom: CustomFieldsInput
    status: Literal["proposed", "approved", "in_progress", "blocked", "implemented", "verified", "rejected", "cancelled"]
    reason: str
    note: str
    verified_by: PersonReferenceInput
    evidence_refs: List[SentEvidenceReference]


class UpdateApiKey(TypedDict, total=False):
    label: str
    note: str | None
    owner: KeyOwnerChoice
    scopes: List[Literal["read:universe", "read:findings", "write:evidence", "write:findings", "admin:sync", "read:*", "write:*", "admin:*", "*"]]
    allowed_addresses: List[str]
    expires_at: str


class UpdateEvidencePolicy(TypedDict):
    retention_years: int


class UpdateFinding(TypedDict, total=False):
    external_id: str | None
    title: str
    condition: str
    criteria: str | None
    cause: str | None
    consequence: str | None
    corrective_action: str | None
    cause_category: Literal["people", "process", "system", "governance", "third_party", "data", "other"] | None
    severity: Literal["critical", "high", "medium", "low"]
    type: Literal["control_deficiency", "noncompliance", "observation", "exception", "improvement"]
    deficiency_class: Literal["deficiency", "significant_deficiency", "material_weakness"] | None
    coso_component: Literal["control_environment", "risk_assessment", "control_activities", "information_communication", "monitoring"] | None
    entity_ids: List[str]
    owner: PersonPatch | None
    identified_date: str
    target_date: str
    repeat_of_id: str | None
    source: Literal["internal_audit", "external_audit", "regulator", "self_identified", "monitoring", "other"] | None
    engagement_ref: str | None
    test_procedure_id: str | None
    management_response: ManagementResponsePatch | None
    custom: CustomFieldsInput


class UpdateKeyPolicy(TypedDict, total=False):
    max_key_days: int
    required_addresses: List[str]
    forbid_wildcards: bool
    require_owner: bool
    most_keys: int | None
    rotation_days: int
    revoke_idle_days: int | None
    audit_retention_days: int


class UpdateRecommendation(TypedDict, total=False):
    external_id: str | None
    text: str
    priority: Literal["high", "medium", "low"]
    response: RecommendationDecision
    response_rationale: str | None
    status: Literal["implemented", "verified", "superseded"]
    custom: CustomFieldsInput


class UpdateWebhook(TypedDict, total=False):
    url: str
    events: WebhookEvents
    description: str
    ca: str | None
    state: Literal["enabled", "disabled"]


class WebhookHistoryItem(TypedDict):
    type: Literal["created", "changed", "secret_rotated", "sent", "paused", "deleted"]
    at: str
    actor: Actor


class _WebhookRequired(TypedDict):
    id: str
    url: str
    description: str
    events: List[str]
    ca: str | None
    state: Literal["enabled", "disabled", "paused"]
    paused_at: str | None
    failing_since: str | None
    last_error: str | None
    last_delivered_at: str | None
    pending: int
    secret_expires_at: str | None
    created_at: str
    created_by: Actor
    updated_at: str
    version: int
    history: List[WebhookHistoryItem]


class Webhook(_WebhookRequired, total=False):
    secret: str


class WebhookDelivery(TypedDict):
    id: str
    type: str
    resource_id: str
    occurred_at: str
    state: Literal["pending", "delivered", "failed", "skipped"]
    attempts: int
    last_attempt_at: str | None
    next_attempt_at: str | None
    status: int | None
    duration_ms: int | None
    error: str | None
    answer: str | None


ChangeAction = Literal["created", "updated", "deleted"]
ConnectorHttpAuth = ConnectorHttpAuthValue | ConnectorHttpAuthValue2 | ConnectorHttpAuthValue3 | ConnectorHttpAuthValue4 | ConnectorHttpAuthValue5
CustomFields = Dict[str, str | float | bool | None]
CustomFieldsInput = Dict[str, str | float | bool | None]
FindingsSummary = List[FindingsSummaryValueItem]
JsonValue = Any
KeyOwnerChoice = KeyOwnerChoiceValue | KeyOwnerChoiceValue2
OscalRiskStatus = Literal["open", "investigating", "remediating", "deviation-requested", "deviation-approved", "closed"]
OscalVersion = Literal["1.2.0"]
RecommendationDecision = Literal["accepted", "partially_accepted", "rejected"]
WebhookEvents = List[Literal["*", "key.*", "finding.*", "action_plan.*", "evidence.*", "sync_run.*", "audit.*", "key.created", "key.rotated", "key.changed", "key.expiring", "key.expired", "key.revoked", "key.leaked", "key.used_from_new_address", "key.used_after_revocation", "finding.created", "finding.updated", "finding.became_overdue", "action_plan.created", "action_plan.updated", "action_plan.became_overdue", "evidence.uploaded", "evidence.quarantined", "sync_run.finished", "sync_run.needs_approval", "audit.key", "audit.key_policy", "audit.evidence", "audit.connector", "audit.webhook", "audit.directory", "audit.tenant", "audit.sign_in", "webhook.paused"]]
