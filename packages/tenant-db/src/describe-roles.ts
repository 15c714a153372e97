import { escapeIdentifier } from 'pg'
import {
  becomeOwnerSql,
  closeLargeObjectsSql,
  createDatabaseSql,
  createRoleSql,
  databaseGrantsSql,
  mayBecomeOwnerSql,
  memberSql,
  passwordSql,
  settingsSql,
} from './role-statements.ts'
import {
  type GivenPasswords,
  allRoles,
  assertPasswords,
  loginPasswords,
  logins,
  memberships,
  ownerRole,
  roleSettings,
  secondLogins,
} from './roles.ts'

export function describeRoles(database: string, passwords: GivenPasswords): string {
  assertPasswords(passwords)
  const given = new Map(loginPasswords(passwords))
  const passwordLine = (role: string): string => {
    if (given.has(role)) return `${passwordSql(role, given.get(role))};`
    if (Object.values(secondLogins).some((second) => second === role)) return `${passwordSql(role, undefined)};`
    return `-- Set the password of ${role}, for example with \\password ${role} in psql.`
  }
  return [
    '-- Roles and database of Postern. Run this in one session, as a role with CREATEROLE and CREATEDB.',
    '',
    ...allRoles.map(([role, kind]) =>
      unlessSql(`exists (select from pg_roles where rolname = '${role}')`, createRoleSql(role, kind)),
    ),
    ...memberships.map(([member, role]) => `${memberSql(member, role)};`),
    ...roleSettings.flatMap(([role, settings]) => settingsSql(role, settings).map((statement) => `${statement};`)),
    ...logins.map(passwordLine),
    '',
    unlessSql(mayBecomeOwnerSql(ownerRole), becomeOwnerSql(ownerRole)),
    '-- Omit this statement if the database exists.',
    `${createDatabaseSql(database, ownerRole)};`,
    `set role ${ownerRole};`,
    ...databaseGrantsSql(database, logins).map((statement) => `${statement};`),
    'reset role;',
    '',
    `-- If you are a superuser, also run these, in the database ${escapeIdentifier(database)}. Otherwise a role can create large objects,`,
    '-- which belong to no tenant.',
    ...closeLargeObjectsSql.map((statement) => `-- ${statement};`),
    '',
  ].join('\n')
}

function unlessSql(condition: string, statement: string): string {
  return `do $$ begin if not ${condition} then ${statement}; end if; end $$;`
}
