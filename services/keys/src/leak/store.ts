import type { Tx } from '@postern/tenant-db'

export interface Reporter {
  readonly id: string
  readonly label: string
  readonly address: string | null
}

export interface ReportedKey {
  /** SHA-256 of the key, lower-case hex. */
  readonly hash: string
  /** Facts for the audit trail. */
  readonly detail: Readonly<Record<string, string>>
}

export interface LeakedKey {
  /** Never log or return it. */
  readonly hash: string
  readonly id: string
  readonly tenantId: string
  /** False if it was already revoked. */
  readonly isRevokedNow: boolean
}

/** Whether a report with this SHA-256 is new. Call it in the transaction of its revocations. */
export async function recordGithubReport(tx: Tx, digest: Buffer): Promise<boolean> {
  const [row] = await tx.query<{ isNew: boolean }>({
    name: 'keys_record_github_report',
    text: 'select keys.record_github_report($1) as "isNew"',
    values: [digest],
  })
  return row?.isNew === true
}

/** Revokes keys of any tenant and returns those that exist. */
export async function revokeLeakedKeys(
  tx: Tx,
  keys: readonly ReportedKey[],
  { id, label, address }: Reporter,
): Promise<LeakedKey[]> {
  return await tx.query<{ hash: string; id: string; tenantId: string; isRevokedNow: boolean }>({
    name: 'keys_revoke_leaked_keys',
    text: `
      select encode(k.hash, 'hex') as hash, k.id, k.tenant_id as "tenantId", k.revoked_now as "isRevokedNow"
        from keys.revoke_leaked_keys(
               (select array_agg(decode(a.hash, 'hex') order by a.place) from unnest($1::text[]) with ordinality as a (hash, place)),
               $2::jsonb[], $3, $4, $5) as k`,
    values: [keys.map(({ hash }) => hash), keys.map(({ detail }) => JSON.stringify(detail)), id, label, address],
  })
}
