import { z } from 'zod'
import { refusedRequestSchema } from './usage.ts'

/** The checks of a gateway, in their order. */
export const decisionSteps = ['target', 'state', 'expiry', 'tenant', 'address', 'route', 'scope', 'limit'] as const
export type DecisionStep = (typeof decisionSteps)[number]

export const explainBodySchema = z
  .strictObject({
    request_id: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({ description: 'The id of a refused request, instead of the other fields', examples: ['Y8M9n9rbMpIc-34'] }),
    method: z
      .string()
      .regex(/^[A-Za-z-]{1,32}$/, { message: 'must be a method of HTTP, such as GET' })
      .optional()
      .meta({ description: 'Method of the request; GET if absent', examples: ['GET'] }),
    path: z
      .string()
      .min(1)
      .max(8192)
      .optional()
      .meta({ description: 'The path, with or without its query, as the client sends it' }),
    address: z
      .union([z.ipv4(), z.ipv6()], { message: 'must be an IPv4 or IPv6 address' })
      .optional()
      .meta({
        description: 'The address of the client; if absent, the address that used the key last',
        examples: ['203.0.113.7'],
      }),
  })
  .refine(
    ({ request_id: request, ...asked }) =>
      request === undefined ? asked.path !== undefined : Object.values(asked).every((value) => value === undefined),
    { message: 'must have either `path` or only `request_id`' },
  )
  .meta({
    id: 'ExplainRequest',
    description: 'A request with `path`, or the `request_id` of one of the last hundred refusals of the key.',
    examples: [{ path: '/api/v1/findings', address: '203.0.113.7' }],
  })

export const explanationSchema = z
  .object({
    decision: z.enum(['accepted', 'refused']).meta({ description: 'What a gateway does with the request' }),
    status: z
      .int()
      .nullable()
      .meta({ description: 'The status of the refusal', examples: [403] }),
    code: z
      .string()
      .nullable()
      .meta({ description: 'The problem code of the refusal', examples: ['key_expired'] }),
    route: z
      .string()
      .nullable()
      .meta({ description: 'The operation of the request', examples: ['findings.list'] }),
    steps: z
      .array(
        z
          .object({
            step: z.enum(decisionSteps),
            outcome: z.enum(['passed', 'refused', 'skipped', 'unknown']).meta({
              description: '`skipped`: an earlier step decided. `unknown`: only a gateway knows.',
            }),
            detail: z.string(),
          })
          .meta({ id: 'ExplanationStep' }),
      )
      .meta({ description: 'All checks, in the order of the gateway' }),
    address: z
      .string()
      .nullable()
      .meta({ description: 'The address that was checked; null if none is known', examples: ['203.0.113.7'] }),
    refusal: refusedRequestSchema
      .nullable()
      .meta({ description: 'The refusal with `request_id`. The other members then say what happened at its time.' }),
    now: z
      .object({
        decision: z.enum(['accepted', 'refused']).meta({ description: 'What a gateway does with the request now' }),
        code: z
          .string()
          .nullable()
          .meta({ description: 'The problem code of the refusal', examples: ['insufficient_scope'] }),
      })
      .nullable()
      .meta({
        description: 'What the present settings decide about the refusal; null without one, or if no route matched',
      }),
  })
  .meta({ id: 'Explanation' })
export type Explanation = z.infer<typeof explanationSchema>
