import type { Command } from 'commander'
import type { CommandContext } from '../session.ts'
import { addCommand, exampleId, parseLimit, withExamples } from './parts.ts'

export function addAuditCommands(program: Command, context: CommandContext): void {
  const audit = withExamples(
    program.command('audit').description('Who did what in a tenant').helpCommand(false),
    'audit list --tenant harbourline --outcome failure',
    'audit tail --tenant harbourline --follow',
  )
  const add = (name: string, description: string, ...examples: readonly string[]) =>
    addCommand(audit, name, description, ...examples)
      .requiredOption('--tenant <tenant>', 'slug or id')
      .option('--category <category...>', 'only events of these categories, such as key or evidence')
      .option('--action <action>', 'only events of this action, such as key.revoked')
      .option('--actor <id>', 'only events of the actor with this id')
      .option('--resource <id>', 'only events of the resource with this id')
      .option('--outcome <outcome>', 'success or failure')
  add('list', 'List events, newest first', 'audit list --tenant harbourline --category key --since 2026-11-01')
    .option('--since <when>', 'only events since a date or RFC 3339 time')
    .option('--until <when>', 'only events before a date or RFC 3339 time')
    .option('--limit <number>', 'maximum number (default: 100)', parseLimit)
    .action(async (options) => await (await auditCommands()).listAudit(context, options))
  add(
    'tail',
    'Print events as NDJSON, oldest first, for a SIEM',
    'audit tail --tenant harbourline --follow',
    `audit tail --tenant harbourline --follow --since 42.${exampleId}`,
  )
    .option('--since <position>', 'only events after this `position`, which each event has (default: all)')
    .option('--follow', 'wait for more events, until SIGINT or SIGTERM')
    .action(async (options) => await (await auditCommands()).tailAudit(context, options))
}

const auditCommands = async () => await import('../commands/audit.ts')
