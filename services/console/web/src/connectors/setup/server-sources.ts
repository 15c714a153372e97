import { type Setting, type SourceInfo, certificates, is } from './setting.ts'

const password = [{ name: 'password', label: 'Password' }] as const

function server(host: string, port: string): readonly Setting[] {
  return [
    { kind: 'text', name: 'host', label: 'Host', placeholder: host, isRequired: true },
    { kind: 'number', name: 'port', label: 'Port', placeholder: port },
  ]
}

export const ldap: SourceInfo = {
  title: 'LDAP directory',
  description: 'Entries of a directory such as Active Directory, always encrypted.',
  settings: [
    ...server('ldap.example.com', '636 or 389'),
    {
      kind: 'choice',
      name: 'encryption',
      label: 'Encryption',
      choices: [
        { value: 'ldaps', label: 'LDAPS' },
        { value: 'starttls', label: 'StartTLS' },
      ],
    },
    {
      kind: 'text',
      name: 'bind_dn',
      label: 'Bind DN',
      placeholder: 'cn=postern,ou=services,dc=example,dc=com',
      isRequired: true,
    },
    {
      kind: 'text',
      name: 'base_dn',
      label: 'Base DN',
      placeholder: 'ou=departments,dc=example,dc=com',
      isRequired: true,
    },
    { kind: 'text', name: 'filter', label: 'Filter', placeholder: '(objectClass=*)' },
    {
      kind: 'choice',
      name: 'scope',
      label: 'Depth',
      isAdvanced: true,
      choices: [
        { value: 'sub', label: 'Everything below' },
        { value: 'one', label: 'One level' },
      ],
    },
    {
      kind: 'list',
      name: 'attributes',
      label: 'Attributes to read',
      placeholder: 'ou, cn, name, displayName, mail, …',
      isAdvanced: true,
    },
    {
      kind: 'text',
      name: 'key_attribute',
      label: 'Attribute that never changes',
      placeholder: 'entryUUID',
      help: 'objectGUID in Active Directory.',
      isAdvanced: true,
    },
    {
      kind: 'text',
      name: 'parent_filter',
      label: 'Filter for parent units',
      placeholder: '(objectClass=organizationalUnit)',
      isAdvanced: true,
    },
    { kind: 'number', name: 'page_size', label: 'Entries per page', placeholder: '500', isAdvanced: true },
    {
      kind: 'yes',
      name: 'ignore_referrals',
      label: 'Ignore referrals to other directories',
      isAdvanced: true,
    },
    certificates(),
  ],
  secrets: () => password,
}

export const sql: SourceInfo = {
  title: 'Database',
  description: 'One table or view of a PostgreSQL or MariaDB database, read only.',
  settings: [
    {
      kind: 'choice',
      name: 'engine',
      label: 'System',
      choices: [
        { value: 'postgres', label: 'PostgreSQL' },
        { value: 'mariadb', label: 'MariaDB' },
      ],
    },
    ...server('db.example.com', '5432 or 3306'),
    { kind: 'text', name: 'database', label: 'Database', isRequired: true },
    { kind: 'text', name: 'username', label: 'User name', isRequired: true },
    { kind: 'text', name: 'schema', label: 'Schema', placeholder: 'public', when: is('engine', 'postgres') },
    { kind: 'text', name: 'view', label: 'Table or view', isRequired: true },
    { kind: 'list', name: 'columns', label: 'Columns to read', placeholder: 'All of them', isAdvanced: true },
    {
      kind: 'choice',
      name: 'encryption',
      label: 'Encryption',
      isAdvanced: true,
      choices: [
        { value: 'tls', label: 'TLS' },
        { value: 'none', label: 'None (only for addresses that the operator allows)' },
      ],
    },
    certificates(),
  ],
  secrets: () => password,
}
