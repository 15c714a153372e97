import { type FindingsUnderTest, type Principal, path } from './service.ts'

/** Returns the query of the next page. */
export function nextOf(link: string | undefined): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(link ?? '')?.[1]?.slice(path.length)
}

/** Findings of one transaction, many with equal times, days and severity, so that only the id breaks ties. */
export async function insertManyFindings(
  service: FindingsUnderTest,
  principal: Principal,
  count: number,
): Promise<void> {
  await service.asService.write(service.assertionOf(principal.tenantId), async (tx) =>
    tx.execute({
      text: `insert into findings.finding (
          tenant_id, year, number, title, condition, severity, type, status, identified_on, target_on,
          created_by_type, created_by_id, created_by_label)
        select (select tenancy.tenant_id()), 2026, n, 'Finding ' || n, 'c', (array['critical', 'high', 'medium', 'low'])[1 + n % 4],
          'observation', 'draft', date '2026-01-01', date '2026-02-01' + n % 3, 'api_key', 'k', 'l'
        from generate_series(1, $1::integer) n`,
      values: [count],
    }),
  )
}
