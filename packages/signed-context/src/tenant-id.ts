const tenantIdPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Stands for no tenant: the operator of the platform, and requests to public routes. No tenant ever has it. */
export const nilTenantId = '00000000-0000-0000-0000-000000000000'

/** Tells whether a text is a UUID in the one spelling that Postern uses: lower case, with hyphens. */
export function isTenantId(text: string): boolean {
  return tenantIdPattern.test(text)
}
