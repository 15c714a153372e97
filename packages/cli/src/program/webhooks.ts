import type { Command } from 'commander'
import type { CommandContext } from '../session.ts'
import { exampleId, addCommand, parseLimit, withExamples, wholeNumberTo } from './parts.ts'

export function addWebhookCommands(program: Command, context: CommandContext): void {
  const webhooks = withExamples(
    program.command('webhooks').description('Endpoints that get the events of a tenant').helpCommand(false),
    'webhooks create https://hooks.harbourline.example/postern --tenant harbourline --event key.*',
    'webhooks list --tenant harbourline',
  )
  const add = (name: string, description: string, example: string, argument?: readonly [string, string]) => {
    const command = addCommand(webhooks, name, description, `webhooks ${example} --tenant harbourline`)
    const withArgument = argument === undefined ? command : command.argument(...argument)
    return withArgument.requiredOption('--tenant <tenant>', 'slug or id')
  }
  const id = ['<id>', 'id of the endpoint'] as const
  add(
    'create',
    'Set up an endpoint; its secret is shown once',
    "create https://hooks.harbourline.example/postern --event 'key.*' finding.created",
    ['<url>', urlMeaning],
  )
    .requiredOption('--event <type...>', "types of events: '*', a group such as 'key.*', or key.revoked")
    .option('--description <text>', 'what the endpoint is for')
    .option('--ca <file>', 'certificates (PEM) to trust instead of the public ones')
    .action(async (url, options) => await (await webhookCommands()).createWebhook(context, url, options))
  add('update', 'Change URL, events or description of an endpoint', `update ${exampleId} --event 'key.*'`, id)
    .option('--url <url>', urlMeaning)
    .option('--event <type...>', "types of events: '*', a group such as 'key.*', or key.revoked")
    .option('--description <text>', 'what the endpoint is for')
    .action(async (given, options) => await (await webhookCommands()).updateWebhook(context, given, options))
  add('list', 'List endpoints', 'list').action(
    async (options) => await (await webhookCommands()).listWebhooks(context, options),
  )
  add('deliveries', 'List deliveries, newest first', `deliveries ${exampleId}`, id)
    .option('--state <state>', 'pending, delivered, failed or skipped')
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

const urlMeaning = 'https URL of the receiver, mailto: with addresses, or mailto:{key_owner} for the owner of each key'

const parseHours = wholeNumberTo(168)
const webhookCommands = async () => await import('../commands/webhooks.ts')
