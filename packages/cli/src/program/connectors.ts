import type { Command } from 'commander'
import type { CommandContext } from '../session.ts'
import { addCommand, withExamples } from './parts.ts'

export function addConnectorCommands(program: Command, context: CommandContext): void {
  const connectors = withExamples(
    program.command('connectors').description('Connectors of the tenant of an API key').helpCommand(false),
    'connectors list',
    'connectors run hr-nightly --file departments.csv --watch',
  )
  addCommand(connectors, 'list', 'List connectors', 'connectors list --json').action(
    async (options) => await (await connectorCommands()).listConnectors(context, options),
  )
  addCommand(
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
  addCommand(
    connectors,
    'run',
    'Run a connector; with --watch, wait until it ends or needs approval',
    'connectors run erp --watch',
    'connectors run hr-nightly --file departments.csv --dry-run --watch',
  )
    .argument('<key>', 'key of the connector')
    .option('--file <path>', 'the table (CSV or .xlsx) for a connector for uploads')
    .option('--dry-run', 'show what would change without changing it')
    .option('--watch', 'follow the run, with a progress bar on standard error')
    .option('--override-safety <reason>', 'apply without approval, regardless of the limits')
    .action(async (key, options) => await (await connectorCommands()).runConnector(context, key, options))
  addCommand(
    connectors,
    'test',
    'Read the first rows of a connector and show what they would become; stores nothing',
    'connectors test hr-nightly --file departments.csv',
  )
    .argument('<key>', 'key of the connector')
    .option('--file <path>', 'the table (CSV or .xlsx) for a connector for uploads')
    .action(async (key, options) => await (await runCommands()).testConnector(context, key, options))
  addRunCommands(connectors, context)
  addCommand(
    connectors,
    'rewrap-secrets',
    'Encrypt all secrets of connectors with the current key of POSTERN_SYNC_SECRETS, before the old key is retired',
    'connectors rewrap-secrets',
  ).action(async (options) => await (await connectorCommands()).rewrapSecrets(context, options))
}

function addRunCommands(connectors: Command, context: CommandContext): void {
  const run = ['<run>', 'id of the run'] as const
  const watch = ['--watch', 'follow the run, with a progress bar on standard error'] as const
  const reason = ['--reason <text>', 'reason, stored with the run'] as const
  addCommand(connectors, 'runs', 'List the newest runs', 'connectors runs --connector hr-nightly')
    .option('--connector <key>', 'only runs of this connector')
    .action(async (options) => await (await runCommands()).listRuns(context, options))
  addCommand(
    connectors,
    'show-run',
    'Show a run with its progress, counts, and first errors and warnings',
    'connectors show-run 0192…',
  )
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).showRunById(context, id, options))
  addCommand(
    connectors,
    'missing',
    'List the rows that are missing from the source of a connector',
    'connectors missing hr-nightly',
  )
    .argument('<key>', 'key of the connector')
    .action(async (key, options) => await (await runCommands()).listMissing(context, key, options))
  addCommand(connectors, 'errors', 'List the errors in the source of a run', 'connectors errors 0192…')
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).listRunErrors(context, id, options))
  addCommand(
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
  addCommand(connectors, 'cancel', 'Cancel a run; applied changes remain', 'connectors cancel 0192…')
    .argument(...run)
    .action(async (id, options) => await (await runCommands()).cancelRun(context, id, options))
  addCommand(connectors, 'rollback', 'Undo the changes of a run with a new run', 'connectors rollback 0192… --watch')
    .argument(...run)
    .option(...reason)
    .option(...watch)
    .action(async (id, options) => await (await runCommands()).rollbackRun(context, id, options))
}

const connectorCommands = async () => await import('../commands/connectors.ts')
const createCommand = async () => await import('../commands/create-connector.ts')
const runCommands = async () => await import('../commands/runs.ts')
