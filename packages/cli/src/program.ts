import { Command, InvalidArgumentError } from 'commander'
import { exitCodeHelp } from './exit-code.ts'
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
  leaf(tenants, 'create', 'Create a tenant', "tenants create harbourline --name 'Harbourline Bank'")
    .argument('<slug>', 'short name: 2 to 63 of a-z, 0-9 and -, beginning with a letter')
    .requiredOption('--name <name>', 'full name, for people')
    .action(async (slug, options) => await (await tenantCommands()).createTenant(context, slug, options))
  leaf(tenants, 'list', 'List all tenants', 'tenants list --json').action(
    async (options) => await (await tenantCommands()).listTenants(context, options),
  )
  leaf(tenants, 'show', 'Show a tenant and its limits', 'tenants show harbourline')
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).showTenant(context, tenant, options))
  leaf(
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
  leaf(tenants, 'events', 'Show the changes of a tenant, newest first', 'tenants events harbourline --limit 20')
    .argument('<tenant>', 'slug or id')
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (tenant, options) => await (await tenantCommands()).listTenantEvents(context, tenant, options))
  leaf(
    tenants,
    'suspend',
    'Reject all keys and people of a tenant; returns when enforced',
    'tenants suspend harbourline',
  )
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).changeTenant(context, 'suspend', tenant, options))
  leaf(tenants, 'resume', 'Undo a suspension; returns when every gateway knows', 'tenants resume harbourline')
    .argument('<tenant>', 'slug or id')
    .action(async (tenant, options) => await (await tenantCommands()).changeTenant(context, 'resume', tenant, options))
}

function addKeyCommands(program: Command, context: CommandContext): void {
  const keys = withExamples(
    program.command('keys').description('API keys of a tenant').helpCommand(false),
    'keys create --tenant harbourline --label grc-export --scope read:findings --expires 90d',
    'keys list --tenant harbourline --state active',
    'keys revoke 019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001 --reason "laptop lost"',
  )
  leaf(
    keys,
    'create',
    'Generate a key; its value is shown once',
    'keys create --tenant harbourline --label grc-export --scope read:findings read:universe --expires 90d',
    "keys create --tenant harbourline --label nightly --scope 'read:*' --expires 2027-06-30T00:00:00Z --address 203.0.113.0/24 --json",
  )
    .requiredOption('--tenant <tenant>', 'slug or id')
    .requiredOption('--label <label>', 'what the key is for: 1 to 100 characters')
    .requiredOption(
      '--scope <scope...>',
      'one or several of read:universe read:findings write:evidence write:findings admin:sync read:* write:* admin:* *',
    )
    .requiredOption('--expires <when>', '30d, 90d, 1y, a date (its last second in UTC) or an RFC 3339 time')
    .option('--address <range...>', 'allowed client addresses: CIDR ranges, IPv4 or IPv6 (default: any)')
    .option('--note <text>', 'what readers should know: at most 1,000 characters')
    .option('--owner <person>', 'id of the person who answers for the key; see `GET /members`')
    .option('--owner-team <name>', 'team that answers for the key, with --owner-contact')
    .option('--owner-contact <address>', 'e-mail address of the team')
    .action(async (options) => await (await keyCommands()).createKey(context, options))
  leaf(
    keys,
    'list',
    'List keys, newest first',
    'keys list --tenant harbourline',
    "keys list --tenant harbourline --state active expired --scope '*' --json",
  )
    .requiredOption('--tenant <tenant>', 'slug or id')
    .option('--state <state...>', 'only keys in these states: active, expired, revoked')
    .option('--scope <scope...>', 'only keys with one of these scopes, or a wildcard that includes it')
    .option('--label <text>', 'only keys whose label contains this text')
    .option('--owner <owner>', 'only keys of this owner: id of a person, or e-mail address of a team')
    .option('--health <reason>', 'only active keys with this reason of `keys health`')
    .option('--expires-before <when>', 'only keys that expire before a date or RFC 3339 time')
    .option('--unused-since <when>', 'only keys without a request since a date or RFC 3339 time')
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (options) => await (await keyCommands()).listKeys(context, options))
  leaf(keys, 'health', 'Count the keys that need a look, by reason', 'keys health --tenant harbourline')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .action(async (options) => await (await keyCommands()).showHealth(context, options))
  keyLeaf(keys, 'show', 'Show a key; never its value', `keys show ${exampleId}`).action(
    async (id, options) => await (await keyCommands()).showKey(context, id, options),
  )
  leaf(
    keys,
    'find',
    'Find a key by its value, which is read from standard input and neither stored nor logged',
    'keys find - < found-key.txt',
  )
    .argument('<source>', '-, for standard input')
    .option('--tenant <tenant>', 'slug or id of its tenant (default: every tenant is searched)')
    .action(async (source, options) => await (await findCommand()).findKeyByValue(context, source, options))
  keyLeaf(
    keys,
    'explain',
    'Show step by step whether a gateway accepts a request with a key, or why it refused one; sends nothing',
    `keys explain ${exampleId} --path /api/v1/findings --address 203.0.113.7`,
    `keys explain ${exampleId} --request Y8M9n9rbMpIc-34`,
  )
    .option('--path <path>', 'path of the request, with or without its query')
    .option('--address <address>', 'IPv4 or IPv6 address of the client (default: the one that used the key last)')
    .option('--method <method>', 'method of the request (default: GET)')
    .option('--request <id>', 'id of one of the last 100 refused requests, as `keys usage` shows it')
    .action(async (id, options) => await (await explainCommand()).explainRequest(context, id, options))
  leaf(
    keys,
    'bulk',
    'Preview a change of several keys, or make it with --apply; returns when every gateway enforces it',
    'keys bulk revoke --tenant harbourline --owned-by amara.osei --state active',
    'keys bulk reassign --tenant harbourline --health owner_left --owner-team SOC --owner-contact soc@harbourline.example',
  )
    .argument('<action>', 'revoke, shorten, reassign or relabel')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .option('--id <id...>', 'ids of the keys, at most 1,000')
    .option('--owned-by <owner>', 'keys of this owner: id of a person, or e-mail address of a team')
    .option('--label-contains <text>', 'keys whose label contains this text')
    .option('--state <state...>', 'keys in these states: active, expired, revoked')
    .option('--health <reason>', 'active keys with this reason of `keys health`')
    .option('--unused-since <when>', 'keys without a request since a date or RFC 3339 time')
    .option('--reason <text>', 'revoke: why, for the audit trail')
    .option('--expires <when>', 'shorten: latest expiry, a date (its last second in UTC) or an RFC 3339 time')
    .option('--owner <person>', 'reassign: id of the person who answers for the keys')
    .option('--owner-team <name>', 'reassign: team that answers for the keys, with --owner-contact')
    .option('--owner-contact <address>', 'reassign: e-mail address of the team')
    .option('--label <label>', 'relabel: what the keys are for')
    .option('--apply <version>', 'make the change, if the keys are as in the preview with this version')
    .action(async (action, options) => await (await bulkCommand()).changeKeys(context, action, options))
  leaf(
    keys,
    'scan',
    'Find keys in files, folders and Git histories; needs no network, and shows no values; exits with 1 if there is a key',
    'keys scan .',
    'keys scan --no-history config.yml build.log',
  )
    .argument('<path...>', 'files and folders; links in folders are not followed')
    .option('--no-history', 'do not scan the history of Git repositories')
    .action(async (paths, options) => await (await scanCommand()).scanKeys(context, paths, options))
  leaf(
    keys,
    'report-leak',
    'Report leaked keys, which revokes them; reads a text from standard input, and needs no credentials',
    'keys report-leak - < paste.txt',
  )
    .argument('<source>', '-, for standard input: at most 100 keys, in any text')
    .action(async (source, options) => await (await reportCommand()).reportLeak(context, source, options))
  keyLeaf(
    keys,
    'update',
    'Edit label, note and owner of a key, or narrow it; returns when every gateway enforces it',
    `keys update ${exampleId} --owner-team SOC --owner-contact soc@harbourline.example`,
    `keys update ${exampleId} --scope read:findings --expires 2027-06-30`,
  )
    .option('--label <label>', 'what the key is for: 1 to 100 characters')
    .option('--note <text>', "what readers should know; '' removes it")
    .option('--owner <person>', 'id of the person who answers for the key; see `GET /members`')
    .option('--owner-team <name>', 'team that answers for the key, with --owner-contact')
    .option('--owner-contact <address>', 'e-mail address of the team')
    .option('--scope <scope...>', 'scopes that remain')
    .option('--address <range...>', 'allowed client addresses that remain')
    .option('--expires <when>', 'earlier expiry: a date (its last second in UTC) or an RFC 3339 time')
    .action(async (id, options) => await (await keyCommands()).updateKey(context, id, options))
  keyLeaf(
    keys,
    'revoke',
    'Revoke a key permanently; returns when every gateway rejects it',
    `keys revoke ${exampleId} --reason "laptop lost"`,
  )
    .option('--reason <text>', 'reason for the audit trail')
    .action(async (id, options) => await (await keyCommands()).revokeKey(context, id, options))
  keyLeaf(
    keys,
    'rotate',
    'Replace a key with a new one, whose value is shown once; the old key remains valid for the overlap',
    `keys rotate ${exampleId} --overlap 48h`,
  )
    .option('--overlap <time>', 'how long the old key remains valid: 0s to 7d', '24h')
    .option('--expires <when>', '30d, 90d or 1y (default: the original lifetime of the old key)')
    .action(async (id, options) => await (await keyCommands()).rotateKey(context, id, options))
  keyLeaf(
    keys,
    'usage',
    'Show where a key was used in the last 30 days, and its last refusals',
    `keys usage ${exampleId}`,
  ).action(async (id, options) => await (await usageCommand()).showUsage(context, id, options))
  keyLeaf(keys, 'events', "Show a key's audit trail, newest first", `keys events ${exampleId} --limit 20`)
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (id, options) => await (await keyCommands()).listKeyEvents(context, id, options))
}

function addOperatorCommands(program: Command, context: CommandContext): void {
  const operators = withExamples(
    program.command('operators').description('Credentials of named operators').helpCommand(false),
    'operators create ada',
  )
  leaf(
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
  leaf(
    secrets,
    'init',
    'Create missing secrets, and a folder for each component with only its own secrets',
    "secrets init ./secrets --postgres 'db.internal:5432?sslmode=verify-full' --redis rediss://cache.internal:6379",
    'secrets init ./secrets',
  )
    .argument('<folder>', 'folder for the secrets; created if it is missing, readable only by you')
    .option('--postgres <host:port[?parameters]>', `PostgreSQL, for migrations ${known('postgres:5432')}`)
    .option(
      '--pooler <host:port[?parameters]>',
      `address for the services: a pooler in transaction mode, or PostgreSQL ${known('pgbouncer:6432')}`,
    )
    .option('--redis <host:port|url>', `Redis; use a URL without a password for TLS or groups ${known('redis:6379')}`)
    .option('--database <name>', `name of the database ${known('postern')}`)
    .action(async (folder, options) => await (await installationCommands()).initializeSecrets(context, folder, options))
  leaf(
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
  leaf(program, 'migrate', 'Update roles, database and schemas to this release; safe to repeat', 'migrate')
    .option('--retire-assertion-keys', 'in ten minutes, reject assertions of keys that are not in the ring')
    .option('--print-roles', 'only print the SQL that creates roles and database, for somebody else to run')
    .addHelpText('after', migrateHelp)
    .action(async (options) => await (await installationCommands()).migrateDatabase(context, options))
}

function addLogCommands(program: Command, context: CommandContext): void {
  leaf(
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
  leaf(
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

function addConnectorCommands(program: Command, context: CommandContext): void {
  const connectors = withExamples(
    program.command('connectors').description('Connectors of the tenant of an API key').helpCommand(false),
    'connectors list',
    'connectors run hr-nightly --file departments.csv --watch',
  )
  leaf(connectors, 'list', 'List connectors', 'connectors list --json').action(
    async (options) => await (await connectorCommands()).listConnectors(context, options),
  )
  leaf(
    connectors,
    'create',
    'Create a connector; its secrets come from a file or standard input, never from the command line',
    'connectors create hr-nightly --type csv --config hr.json',
    'connectors create erp --type sql --config erp.json --secrets - < erp-secrets.json',
  )
    .argument('<key>', 'short name of the connector')
    .requiredOption('--type <type>', 'csv, http_json, ldap, scim or sql')
    .requiredOption(
      '--config <file>',
      'JSON: dataset, config, mapping, schedule and so on, as in POST /api/v1/connectors',
    )
    .option('--secrets <file>', 'JSON object of names and values, such as {"password": "…"}; - means standard input')
    .action(async (key, options) => await (await createCommand()).createConnector(context, key, options))
  leaf(
    connectors,
    'run',
    'Run a connector; with --watch, wait until it ends or needs approval',
    'connectors run erp --watch',
    'connectors run hr-nightly --file departments.csv --dry-run --watch',
  )
    .argument('<key>', 'key of the connector')
    .option('--file <path>', 'the table for a connector for uploads')
    .option('--dry-run', 'show what would change without changing it')
    .option('--watch', 'follow the run, with a progress bar on standard error')
    .option('--override-safety <reason>', 'apply without approval, regardless of the limits')
    .action(async (key, options) => await (await connectorCommands()).runConnector(context, key, options))
  leaf(
    connectors,
    'test',
    'Read the first rows of a connector and show what they would become; stores nothing',
    'connectors test hr-nightly --file departments.csv',
  )
    .argument('<key>', 'key of the connector')
    .option('--file <path>', 'the table for a connector for uploads')
    .action(async (key, options) => await (await runCommands()).testConnector(context, key, options))
  addRunCommands(connectors, context)
  leaf(
    connectors,
    'rewrap-secrets',
    'Encrypt all secrets of connectors with the current key of POSTERN_SYNC_SECRETS, before the old key is retired',
    'connectors rewrap-secrets',
  ).action(async (options) => await (await connectorCommands()).rewrapSecrets(context, options))
}

function addWebhookCommands(program: Command, context: CommandContext): void {
  const webhooks = withExamples(
    program.command('webhooks').description('Endpoints that get the events of a tenant').helpCommand(false),
    'webhooks create https://hooks.harbourline.example/postern --tenant harbourline --event key.*',
    'webhooks list --tenant harbourline',
  )
  const add = (name: string, description: string, example: string, argument?: readonly [string, string]) => {
    const command = leaf(webhooks, name, description, `webhooks ${example} --tenant harbourline`)
    const taken = argument === undefined ? command : command.argument(...argument)
    return taken.requiredOption('--tenant <tenant>', 'slug or id')
  }
  const id = ['<id>', 'id of the endpoint'] as const
  add(
    'create',
    'Set up an endpoint; its secret is shown once',
    "create https://hooks.harbourline.example/postern --event 'key.*' finding.created",
    ['<url>', 'https URL of the receiver'],
  )
    .requiredOption('--event <type...>', "types of events: '*', a group such as 'key.*', or key.revoked")
    .option('--description <text>', 'what the endpoint is for')
    .option('--ca <file>', 'certificates (PEM) to trust instead of the public ones')
    .action(async (url, options) => await (await webhookCommands()).createWebhook(context, url, options))
  add('list', 'List endpoints', 'list').action(
    async (options) => await (await webhookCommands()).listWebhooks(context, options),
  )
  add('deliveries', 'List deliveries, newest first', `deliveries ${exampleId}`, id)
    .option('--state <state>', 'pending, delivered or failed')
    .option('--limit <number>', 'maximum number (default: 100)', parseLimit)
    .action(async (given, options) => await (await webhookCommands()).listDeliveries(context, given, options))
  add('test', 'Send a test event', `test ${exampleId}`, id).action(
    async (given, options) => await (await webhookCommands()).sendWebhook(context, given, options),
  )
  add('redeliver', 'Send a delivery again', `redeliver ${exampleId} --delivery ${exampleId}`, id)
    .requiredOption('--delivery <id>', 'id of the delivery')
    .action(async (given, options) => await (await webhookCommands()).sendWebhook(context, given, options))
  add('rotate-secret', 'Replace the secret, which is shown once', `rotate-secret ${exampleId}`, id)
    .option('--overlap-hours <hours>', 'how long deliveries are also signed with the old secret', parseHours, 24)
    .action(async (given, options) => await (await webhookCommands()).rotateWebhookSecret(context, given, options))
  add('enable', 'Enable an endpoint that is disabled or paused', `enable ${exampleId}`, id).action(
    async (given, options) => await (await webhookCommands()).setWebhookState(context, 'enabled', given, options),
  )
  add('disable', 'Stop sending to an endpoint', `disable ${exampleId}`, id).action(
    async (given, options) => await (await webhookCommands()).setWebhookState(context, 'disabled', given, options),
  )
  add('delete', 'Delete an endpoint; deliveries that wait are dropped', `delete ${exampleId}`, id).action(
    async (given, options) => await (await webhookCommands()).deleteWebhook(context, given, options),
  )
}

function addRunCommands(connectors: Command, context: CommandContext): void {
  const run = ['<run>', 'id of the run'] as const
  const watch = ['--watch', 'follow the run, with a progress bar on standard error'] as const
  const reason = ['--reason <text>', 'reason, stored with the run'] as const
  leaf(connectors, 'runs', 'List the newest runs', 'connectors runs --connector hr-nightly')
    .option('--connector <key>', 'only runs of this connector')
    .action(async (options) => await (await runCommands()).listRuns(context, options))
  leaf(
    connectors,
    'show-run',
    'Show a run with its progress, counts, and first errors and warnings',
    'connectors show-run 0192…',
  )
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).showRunById(context, id, options))
  leaf(
    connectors,
    'missing',
    'List the rows that are missing from the source of a connector',
    'connectors missing hr-nightly',
  )
    .argument('<key>', 'key of the connector')
    .action(async (key, options) => await (await runCommands()).listMissing(context, key, options))
  leaf(connectors, 'errors', 'List the errors in the source of a run', 'connectors errors 0192…')
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).listRunErrors(context, id, options))
  leaf(
    connectors,
    'approve',
    'Apply exactly the reviewed changes of a run',
    'connectors approve 0192… --diff-hash 9f86… --watch',
  )
    .argument(...run)
    .requiredOption('--diff-hash <hash>', 'the diff hash of the reviewed run')
    .option(...reason)
    .option(...watch)
    .action(async (id, options) => await (await runCommands()).approveRun(context, id, options))
  leaf(connectors, 'cancel', 'Cancel a run; applied changes remain', 'connectors cancel 0192…')
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).cancelRun(context, id, options))
  leaf(connectors, 'rollback', 'Undo the changes of a run with a new run', 'connectors rollback 0192… --watch')
    .argument(...run)
    .option(...reason)
    .option(...watch)
    .action(async (id, options) => await (await runCommands()).rollbackRun(context, id, options))
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

const connectorCommands = async () => await import('./commands/connectors.ts')
const createCommand = async () => await import('./commands/create-connector.ts')
const runCommands = async () => await import('./commands/runs.ts')
const webhookCommands = async () => await import('./commands/webhooks.ts')
const agentCommands = async () => await import('./commands/mcp.ts')
const signInCommands = async () => await import('./commands/sign-in.ts')
const logCommands = async () => await import('./commands/verify-log.ts')
const installationCommands = async () => await import('./commands/installation.ts')
const exampleId = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'
const operatorCommands = async () => await import('./commands/operators.ts')
const tenantCommands = async () => await import('./commands/tenants.ts')
const scanCommand = async () => await import('./commands/scan-keys.ts')
const reportCommand = async () => await import('./commands/report-leak.ts')
const keyCommands = async () => await import('./commands/keys.ts')
const findCommand = async () => await import('./commands/find-key.ts')
const explainCommand = async () => await import('./commands/explain-key.ts')
const usageCommand = async () => await import('./commands/key-usage.ts')
const bulkCommand = async () => await import('./commands/bulk-keys.ts')

function known(fallback: string): string {
  return `(default: from the folder's URLs, otherwise ${fallback})`
}

function leaf(parent: Command, name: string, description: string, ...examples: readonly string[]): Command {
  const command = parent.command(name).description(description).option('--json', 'print JSON: the resource of the API')
  return withExamples(command, ...examples).addHelpText('after', exitCodeHelp)
}

function keyLeaf(parent: Command, name: string, description: string, ...examples: readonly string[]): Command {
  return leaf(parent, name, description, ...examples)
    .argument('<id>', 'id of the key')
    .option('--tenant <tenant>', 'slug or id of its tenant (default: every tenant is searched)')
}

function withExamples(command: Command, ...examples: readonly string[]): Command {
  return command.addHelpText(
    'after',
    `\nExamples:\n${examples.map((text) => `  npm run -s postern -- ${text}`).join('\n')}`,
  )
}

/** The maximum of the keys service, per minute. */
const parseRequests = wholeNumberTo(1_000_000_000)
const parseLimit = wholeNumberTo(9_999_999)
const parsePort = wholeNumberTo(65_535)
const parseHours = wholeNumberTo(168)

function wholeNumberTo(most: number): (text: string) => number {
  return (text) => {
    const number = /^[1-9][0-9]{0,9}$/.test(text) ? Number(text) : Infinity
    if (number <= most) return number
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`)
  }
}
