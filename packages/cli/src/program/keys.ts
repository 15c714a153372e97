import type { Command } from 'commander'
import type { CommandContext } from '../session.ts'
import { auditRetention, mostKeyDays } from '@postern/contracts'
import { exampleId, addCommand, parseLimit, wholeNumberTo, withExamples } from './parts.ts'

export function addKeyCommands(program: Command, context: CommandContext): void {
  const keys = withExamples(
    program.command('keys').description('API keys of a tenant').helpCommand(false),
    'keys create --tenant harbourline --label grc-export --scope read:findings --expires 90d',
    'keys list --tenant harbourline --state active',
    'keys revoke 019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001 --reason "laptop lost"',
  )
  addCommand(
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
  addCommand(
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
    .option('--health <reason...>', 'only active keys with one of these reasons of `keys health`')
    .option('--expires-before <when>', 'only keys that expire before a date or RFC 3339 time')
    .option('--unused-since <when>', 'only keys without a request since a date or RFC 3339 time')
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (options) => await (await keyCommands()).listKeys(context, options))
  addCommand(keys, 'health', 'Count the keys that need attention, by reason', 'keys health --tenant harbourline')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .action(async (options) => await (await keyCommands()).showHealth(context, options))
  addCommand(
    keys,
    'policy',
    'Show the rules for the keys of a tenant, or change those that are given',
    'keys policy --tenant harbourline --revoke-idle-days 180',
  )
    .requiredOption('--tenant <tenant>', 'slug or id')
    .option('--max-days <days>', 'longest life of a new key', wholeNumberTo(mostKeyDays))
    .option('--rotation-days <days>', 'age at which a key is due for rotation', wholeNumberTo(mostKeyDays))
    .option('--revoke-idle-days <days>', 'days without a use after which a key is revoked, or never')
    .option('--audit-retention-days <days>', 'days for which audit events are kept', wholeNumberTo(auditRetention.max))
    .action(async (options) => await (await policyCommand()).keyPolicy(context, options))
  keyLeaf(keys, 'show', 'Show a key; never its value', `keys show ${exampleId}`).action(
    async (id, options) => await (await keyCommands()).showKey(context, id, options),
  )
  addCommand(
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
  addCommand(
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
    .option('--health <reason...>', 'active keys with one of these reasons of `keys health`')
    .option('--unused-since <when>', 'keys without a request since a date or RFC 3339 time')
    .option('--reason <text>', 'revoke: why, for the audit trail')
    .option('--expires <when>', 'shorten: latest expiry, a date (its last second in UTC) or an RFC 3339 time')
    .option('--owner <person>', 'reassign: id of the person who answers for the keys')
    .option('--owner-team <name>', 'reassign: team that answers for the keys, with --owner-contact')
    .option('--owner-contact <address>', 'reassign: e-mail address of the team')
    .option('--label <label>', 'relabel: what the keys are for')
    .option('--apply <version>', 'make the change, if the keys are as in the preview with this version')
    .action(async (action, options) => await (await bulkCommand()).changeKeys(context, action, options))
  addCommand(
    keys,
    'scan',
    'Find keys in files, folders and Git histories; needs no network, and shows no values; exits with 1 if there is a key',
    'keys scan .',
    'keys scan --no-history config.yml build.log',
  )
    .argument('<path...>', 'files and folders; links in folders are not followed')
    .option('--no-history', 'do not scan the history of Git repositories')
    .action(async (paths, options) => await (await scanCommand()).scanKeys(context, paths, options))
  addCommand(
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
    .option('--overlap-from <start>', 'rotation, or first_use: the overlap begins when the new key is used', 'rotation')
    .option('--expires <when>', '30d, 90d or 1y (default: the original lifetime of the old key)')
    .option('--scope <scope...>', 'fewer scopes for the new key (default: those of the old key)')
    .action(async (id, options) => await (await keyCommands()).rotateKey(context, id, options))
  keyLeaf(
    keys,
    'usage',
    'Show where a key was used in the last 30 days, its last refusals, and scopes that it does not need',
    `keys usage ${exampleId}`,
  ).action(async (id, options) => await (await usageCommand()).showUsage(context, id, options))
  keyLeaf(
    keys,
    'right-size',
    'Remove the scopes that a key did not need in 30 days; returns when every gateway enforces it',
    `keys right-size ${exampleId}`,
  ).action(async (id, options) => await (await usageCommand()).rightSizeKey(context, id, options))
  keyLeaf(keys, 'events', "Show a key's audit trail, newest first", `keys events ${exampleId} --limit 20`)
    .option('--limit <number>', 'maximum number (default: all)', parseLimit)
    .action(async (id, options) => await (await keyCommands()).listKeyEvents(context, id, options))
}

function keyLeaf(parent: Command, name: string, description: string, ...examples: readonly string[]): Command {
  return addCommand(parent, name, description, ...examples)
    .argument('<id>', 'id of the key')
    .option('--tenant <tenant>', 'slug or id of its tenant (default: every tenant is searched)')
}

const scanCommand = async () => await import('../commands/scan-keys.ts')
const reportCommand = async () => await import('../commands/report-leak.ts')
const keyCommands = async () => await import('../commands/keys.ts')
const findCommand = async () => await import('../commands/find-key.ts')
const explainCommand = async () => await import('../commands/explain-key.ts')
const usageCommand = async () => await import('../commands/key-usage.ts')
const policyCommand = async () => await import('../commands/key-policy.ts')
const bulkCommand = async () => await import('../commands/bulk-keys.ts')
