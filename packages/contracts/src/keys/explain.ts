import { z } from 'zod'

/** The checks of a gateway, in their order. */
export const decisionSteps = ['target', 'state', 'expiry', 'tenant', 'address', 'route', 'scope', 'limit'] as const
export type DecisionStep = (typeof decisionSteps)[number]

export const explainBodySchema = z
  .strictObject({
    method: z
      .string()
      .regex(/^[A-Za-z-]{1,32}$/, { message: 'must be a method of HTTP, such as GET' })
      .meta({ examples: ['GET'] }),
    path: z
      .string()
      .min(1)
      .max(8192)
      .meta({ description: 'The path, with or without its query, as the client sends it' }),
    address: z
      .union([z.ipv4(), z.ipv6()], { message: 'must be an IPv4 or IPv6 address' })
      .meta({ description: 'The address of the client', examples: ['203.0.113.7'] }),
  })
  .meta({ id: 'ExplainRequest' })

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
  })
  .meta({ id: 'Explanation' })
export type Explanation = z.infer<typeof explanationSchema>
