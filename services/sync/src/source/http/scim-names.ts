const words = `
  schemas id externalId meta resourceType created lastModified location version userName name formatted familyName
  givenName middleName honorificPrefix honorificSuffix displayName nickName profileUrl title userType
  preferredLanguage locale timezone active emails phoneNumbers ims photos addresses groups entitlements roles
  x509Certificates value display type primary $ref members streetAddress locality region postalCode country
  employeeNumber costCenter organization division department manager totalResults startIndex itemsPerPage Resources`
const urns = [
  'urn:ietf:params:scim:schemas:core:2.0:User',
  'urn:ietf:params:scim:schemas:core:2.0:Group',
  'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User',
]
const byLowerCase = new Map([...words.trim().split(/\s+/), ...urns].map((name) => [name.toLowerCase(), name]))

/** Returns the name in the spelling of the standard (RFC 7643, section 2.1). */
export function scimName(name: string): string {
  return byLowerCase.get(name.toLowerCase()) ?? name
}

/** If an object has a name in two spellings, both stay. */
export function withScimNames(value: unknown, levels: number): unknown {
  if (levels === 0 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item) => withScimNames(item, levels - 1))
  const given = new Set(Object.keys(value))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const canonical = scimName(name)
      return [given.has(canonical) ? name : canonical, withScimNames(member, levels - 1)]
    }),
  )
}
