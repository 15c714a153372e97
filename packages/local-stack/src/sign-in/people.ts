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
  person('Amara Osei', 'harbourline', 'admin'),
  person('Jonas Lindqvist', 'harbourline', 'auditor'),
  person('Mei Tanabe', 'harbourline', 'viewer'),
  person('Rosa Kellner', 'korvex', 'admin'),
  person('Tomasz Wrona', 'korvex', 'auditor'),
  person('Leila Haddad', 'korvex', 'viewer'),
  {
    id: 'both-auditor',
    name: 'Ada Lund',
    email: 'ada.lund@audit.example',
    tenant: 'harbourline and korvex',
    roles: ['auditor', 'viewer'],
    grants: ['/postern/harbourline/auditor', '/postern/korvex/viewer'],
  },
]

function person(name: string, tenant: string, role: string): DemoPerson {
  const account = name.toLowerCase().replace(' ', '.')
  return { id: `${tenant}-${role}`, name, email: `${account}@${tenant}.example`, tenant, roles: [role] }
}
