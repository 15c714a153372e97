import { Command } from 'commander'
import { exitCodeHelp } from './exit-code.ts'
import { addAuditCommands } from './program/audit.ts'
import { addConnectorCommands } from './program/connectors.ts'
import { addKeyCommands } from './program/keys.ts'
import { addCommand, parseLimit, wholeNumberTo, withExamples } from './program/parts.ts'
import { addWebhookCommands } from './program/webhooks.ts'
import type { CommandContext } from './session.ts'

/** Creates the command line; a command is loaded when it runs. */
export function createProgram(context: CommandContext, writeError: (text: string) => void): Command {
  const program = new Command('postern')
    .description('Tenants, API keys and connectors of a Postern system, for its operators.')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.print(text.trimEnd()),
      writeErr: writeError,
      // `run` prints errors, as a line or as JSON.
      outputError: () => undefined,
    })
    .configureHelp({ showGlobalOptions: true })
    .helpCommand(false)
    .addHelpText('after', `${settingsHelp}\n${exitCodeHelp}`)
  addTenantCommands(program, context)
  addKeyCommands(program, context)
  addOperatorCommands(program, context)
  addInstallationCommands(program, context)
  addLogCommands(program, context)
  addSignInCommands(program, context)
  addConnectorCommands(program, context)
  addWebhookCommands(program, context)
  addAuditCommands(program, context)
  addAgentCommands(program, context)
  return program
}

const settingsHelp = `
Settings come from the environment; without them, the command uses the system that \`npm start\` runs on this machine:
  POSTERN_HOME               folder of npm start (default .postern in the repository)
  POSTERN_KEYS_URL           origin of the keys service
  POSTERN_SYNC_URL           origin of the sync service, for webhooks and connectors rewrap-secrets
  POSTERN_URL                URL of a gateway, for connectors, mcp and keys report-leak
  POSTERN_API_KEY            key for connectors (admin:sync) and mcp (a secret; or POSTERN_API_KEY_FILE)
  POSTERN_SIGNING_OPERATOR   ring that signs as the operator (a secret; or POSTERN_SIGNING_OPERATOR_FILE)
  POSTERN_ASSERTION_KEYS     ring of the tenant assertion (a secret; or POSTERN_ASSERTION_KEYS_FILE)
  POSTERN_OPERATOR_CREDENTIAL   credential of a named operator, instead of POSTERN_SIGNING_OPERATOR; the audit trail
                             shows its name (a secret; or POSTERN_OPERATOR_CREDENTIAL_FILE)`

function addTenantCommands(program: Command, context: CommandContext): void {
  const tenants = withExamples(
    program.command('tenants').description('Tenants of the platform').helpCommand(false),
    'tenants create harbourline --name "Harbourline Bank"',
    'tenants list',
    'tenants suspend harbourline',
  )
  addCommand(tenants, 'create', 'Create a tenant', "tenants create harbourline --name 'Harbourline Bank'")
    .argument('<slug>', 'short name: 2 to 63 of a-z, 0-9 and -, beginning with a letter')
    .requiredOption('--name <name>', 'full name, for people')
    .action(async (slug, options) => await (await tenantCommands()).createTenant(context, slug, options))
  addCommand(tenants, 'list', 'List all tenants', 'tenants list --json').action(
    async (options) => await (await tenantCommands()).listTenants(context, options),
  )
  addCommand(tenants, 'show', 'Show a tenant and its limits', 'tenants show harbourline')
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).showTenant(context, tenant, options))
  addCommand(
    tenants,
    'update',
    'Change the name or limits of a tenant; returns when every gateway uses them',
    'tenants update harbourline --key-limit 12000 --tenant-limit 120000',
  )
    .argument('<tenant>', 'slug or id')
    .option('--name <name>', 'full name, for people')
    .option('--key-limit <requests>', 'requests a minute of one key on all gateways', parseRequests)
    .option('--tenant-limit <requests>', 'requests a minute of all its keys and people', parseRequests)
    .action(async (tenant, options) => await (await tenantCommands()).updateTenant(context, tenant, options))
  addCommand(tenants, 'events', 'Show the changes of a tenant, newest first', 'tenants events harbourline --limit 20')
    .argument('<tenant>', 'slug or id')
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (tenant, options) => await (await tenantCommands()).listTenantEvents(context, tenant, options))
  addCommand(
    tenants,
    'suspend',
    'Reject all keys and people of a tenant; returns when enforced',
    'tenants suspend harbourline',
  )
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).changeTenant(context, 'suspend', tenant, options))
  addCommand(tenants, 'resume', 'Undo a suspension; returns when every gateway knows', 'tenants resume harbourline')
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).changeTenant(context, 'resume', tenant, options))
}

function addOperatorCommands(program: Command, context: CommandContext): void {
  const operators = withExamples(
    program.command('operators').description('Credentials of named operators').helpCommand(false),
    'operators create ada',
  )
  addCommand(
    operators,
    'create',
    'Print the credential of a named operator; the audit trail shows the name',
    'operators create ada',
  )
    .argument('<name>', '1 to 23 of a-z, 0-9 and -, beginning with a letter')
    .action(async (name, options) => await (await operatorCommands()).createOperator(context, name, options))
}

function addInstallationCommands(program: Command, context: CommandContext): void {
  const secrets = withExamples(
    program.command('secrets').description('Secrets of an installation, in files').helpCommand(false),
    'secrets init ./secrets',
    'secrets rotate ./secrets POSTERN_INTERNAL_SIGNING_KEYS --step add',
  )
  addCommand(
    secrets,
    'init',
    'Create missing secrets, and a folder for each component with only its own secrets',
    "secrets init ./secrets --postgres 'db.internal:5432?sslmode=verify-full' --redis rediss://cache.internal:6379",
    'secrets init ./secrets',
  )
    .argument('<folder>', 'folder for the secrets; created if it is missing, readable only by you')
    .option('--postgres <host:port[?parameters]>', `PostgreSQL, for migrations ${describeDefaultUrl('postgres:5432')}`)
    .option(
      '--pooler <host:port[?parameters]>',
      `address for the services: a pooler in transaction mode, or PostgreSQL ${describeDefaultUrl('pgbouncer:6432')}`,
    )
    .option(
      '--redis <host:port|url>',
      `Redis; use a URL without a password for TLS or groups ${describeDefaultUrl('redis:6379')}`,
    )
    .option('--database <name>', `name of the database ${describeDefaultUrl('postern')}`)
    .action(async (folder, options) => await (await installationCommands()).initializeSecrets(context, folder, options))
  addCommand(
    secrets,
    'rotate',
    'Run one step of replacing a secret; restart everything that reads it between the steps',
    'secrets rotate ./secrets POSTERN_SIGNING_FINDINGS --step promote',
  )
    .argument('<folder>', 'the folder of secrets init')
    .argument(
      '<secret>',
      'name of the secret, such as POSTERN_INTERNAL_SIGNING_KEYS, POSTERN_RECEIPT_KEY, password-keys or password-redis-keys',
    )
    .requiredOption(
      '--step <step>',
      'add (accept the new one), promote (use it), retire (remove the oldest); replace for password-migrator',
    )
    .action(
      async (folder, secret, options) =>
        await (await installationCommands()).rotateSecretStep(context, folder, secret, options),
    )
  addCommand(program, 'migrate', 'Update roles, database and schemas to this release; safe to repeat', 'migrate')
    .option('--retire-assertion-keys', 'in ten minutes, reject assertions of keys that are not in the ring')
    .option('--print-roles', 'only print the SQL that creates roles and database, for somebody else to run')
    .addHelpText('after', migrateHelp)
    .action(async (options) => await (await installationCommands()).migrateDatabase(context, options))
}

function addLogCommands(program: Command, context: CommandContext): void {
  addCommand(
    program,
    'verify-log',
    'Verify an export of the remediation log with earlier checkpoints; needs no network',
    'verify-log log.ndjson --checkpoints checkpoints.txt --jwks keys.json',
  )
    .argument('<export>', 'file: the complete GET /api/v1/remediation-log as NDJSON')
    .requiredOption(
      '--checkpoints <file>',
      'one on each line: the JWS, or the response of GET /api/v1/remediation-log/checkpoint',
    )
    .requiredOption('--jwks <file>', 'response of GET /api/v1/remediation-log/keys, preferably an earlier one')
    .action(async (path, options) => await (await logCommands()).verifyLog(context, path, options))
}

function addSignInCommands(program: Command, context: CommandContext): void {
  const signIn = withExamples(
    program.command('sign-in').description('Sign-in of people with an OpenID provider').helpCommand(false),
    'sign-in check',
  )
  addCommand(
    signIn,
    'check',
    'Sign in with POSTERN_SIGN_IN_FILE or POSTERN_OIDC_…, and show what Postern reads from the token; exits with 1 if nobody can sign in',
    'sign-in check --provider Staff',
    'sign-in check --token token.txt',
  )
    .option('--provider <name>', 'name of the provider (default: the only one)')
    .option('--port <port>', 'port of the redirect address http://127.0.0.1:<port>/callback', parsePort, 8765)
    .option('--device', 'use the device flow in place of a redirect address')
    .option(
      '--token <file>',
      'read this access token, or ID token with `read: id_token`, in place of a sign-in; a secret',
    )
    .action(async (options) => await (await signInCommands()).checkSignIn(context, options))
}

function addAgentCommands(program: Command, context: CommandContext): void {
  program
    .command('mcp')
    .description('Serve the API as tools for an AI agent (Model Context Protocol on standard input and output)')
    .option('--allow-writes', 'also offer tools that write, as far as the key may')
    .addHelpText('after', '\nExamples:\n  POSTERN_API_KEY_FILE=key.txt postern mcp')
    .action(async (options) => await (await agentCommands()).serveMcp(context, options))
}

const migrateHelp = `
Settings, each also as NAME_FILE:
  POSTERN_MIGRATOR_URL       the migrator's connection string, to PostgreSQL and not to a pooler. It can name several
                             servers: postgres://…@one:5432,two:5432/postern?target_session_attrs=read-write
  POSTERN_ASSERTION_KEYS     ring of the tenant assertion
  POSTERN_SUPERUSER_URL      creates roles and database, and sets the passwords: a role with CREATEROLE and CREATEDB, or a
                             superuser. Without it, run what --print-roles prints first
  POSTERN_PASSWORD_KEYS, _FINDINGS, _UNIVERSE, _EVIDENCE, _SYNC   with POSTERN_SUPERUSER_URL: passwords of the services;
                             a:…,b:… during a rotation, as secrets rotate writes them`

const agentCommands = async () => await import('./commands/mcp.ts')
const signInCommands = async () => await import('./commands/sign-in.ts')
const logCommands = async () => await import('./commands/verify-log.ts')
const installationCommands = async () => await import('./commands/installation.ts')
const operatorCommands = async () => await import('./commands/operators.ts')
const tenantCommands = async () => await import('./commands/tenants.ts')

/** A minute; the maximum of the keys service. */
const parseRequests = wholeNumberTo(1_000_000_000)
const parsePort = wholeNumberTo(65_535)

function describeDefaultUrl(fallback: string): string {
  return `(default: from the folder's URLs, otherwise ${fallback})`
}
