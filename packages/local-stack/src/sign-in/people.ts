export interface DemoPerson {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly tenant: string
  readonly roles: readonly string[]
  /** Roles in several tenants, as `/postern/{tenant}/{role}`. */
  readonly grants?: readonly string[]
}

export const demoPeople: readonly DemoPerson[] = [
  createPerson('Amara Osei', 'harbourline', 'admin'),
  createPerson('Jonas Lindqvist', 'harbourline', 'auditor'),
  createPerson('Mei Tanabe', 'harbourline', 'viewer'),
  createPerson('Rosa Kellner', 'korvex', 'admin'),
  createPerson('Tomasz Wrona', 'korvex', 'auditor'),
  createPerson('Leila Haddad', 'korvex', 'viewer'),
  {
    id: 'both-auditor',
    name: 'Ada Lund',
    email: 'ada.lund@audit.example',
    tenant: 'harbourline and korvex',
    roles: ['auditor', 'viewer'],
    grants: ['/postern/harbourline/auditor', '/postern/korvex/viewer'],
  },
]

function createPerson(name: string, tenant: string, role: string): DemoPerson {
  const account = name.toLowerCase().replace(' ', '.')
  return { id: `${tenant}-${role}`, name, email: `${account}@${tenant}.example`, tenant, roles: [role] }
}
