import { type Tx, statement } from '@postern/tenant-db'

export interface SealedSecret {
  readonly name: string
  readonly sealed: string
}

// Every secret of the tenant: of connectors, and of webhook endpoints.
const owners = [
  {
    select: statement(
      'sync_select_all_secrets',
      `select s.connector_id as "ownerId", s.name, s.sealed
      from sync.connector_secret s
      order by s.connector_id, s.name
      for update`,
    ),
    replace: statement(
      'sync_replace_seal',
      'update sync.connector_secret s set sealed = $3 where s.connector_id = $1 and s.name = $2',
    ),
  },
  {
    select: statement(
      'sync_select_webhook_secrets',
      `select s.endpoint_id as "ownerId", s.id as name, s.sealed
      from sync.webhook_secret s
      order by s.endpoint_id, s.id
      for update`,
    ),
    replace: statement(
      'sync_replace_webhook_seal',
      'update sync.webhook_secret s set sealed = $3 where s.endpoint_id = $1 and s.id = $2',
    ),
  },
] as const

/** Replaces the seal of every secret of the tenant, unless `seal` returns undefined. Returns how many changed. */
export async function resealSecrets(
  tx: Tx,
  seal: (ownerId: string, secret: SealedSecret) => string | undefined,
): Promise<number> {
  let changed = 0
  for (const { select, replace } of owners) {
    const rows = await tx.query<SealedSecret & { ownerId: string }>(select([]))
    for (const { ownerId, ...secret } of rows) {
      const sealed = seal(ownerId, secret)
      if (sealed !== undefined) changed += await tx.execute(replace([ownerId, secret.name, sealed]))
    }
  }
  return changed
}
