const tenantIdPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** For operators and public requests. No tenant has it. */
export const nilTenantId = '00000000-0000-0000-0000-000000000000'

export function isTenantId(text: string): boolean {
  return tenantIdPattern.test(text)
}
