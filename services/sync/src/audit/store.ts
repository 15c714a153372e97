import type { RequestInfo } from '@postern/service-kit'
import { type Tx, statement } from '@postern/tenant-db'

const insert = statement(
  'sync_record_audit_event',
  `insert into tenancy.audit_event (
    tenant_id, category, action, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name, request_id)
  values (
    (select tenancy.tenant_id()), $1, $2, tenancy.audit_actor_type($3), $4, $5, $6, $7, $8, $9)`,
)

/** Adds an event to the audit feed. Call it in the transaction of the change, which then fails without its event. */
export async function recordAuditEvent(
  tx: Tx,
  { context, requestId }: Pick<RequestInfo, 'context' | 'requestId'>,
  event: {
    readonly category: 'connector' | 'directory'
    readonly action: string
    readonly resource: { readonly type: string; readonly id: string; readonly name: string }
  },
): Promise<void> {
  const { category, action, resource } = event
  const { kind, id, label } = context
  await tx.execute(insert([category, action, kind, id, label, resource.type, resource.id, resource.name, requestId]))
}
