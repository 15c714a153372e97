import { z } from 'zod'

/** Lower-case names of the headers that GitHub sends. */
export const githubIdHeader = 'github-public-key-identifier'
export const githubSignatureHeader = 'github-public-key-signature'

/** As GitHub documents it; members that it adds later are ignored. */
export const githubMatchesSchema = z
  .array(
    z.object({
      token: z.string().min(1).max(1000),
      type: z.string().min(1).max(200),
      url: z.string().max(4000).nullish(),
      source: z.string().max(200).nullish(),
    }),
  )
  .min(1)
  .max(1000)

export const githubLabelsSchema = z.array(
  z
    .object({
      token_hash: z.string().meta({ description: 'SHA-256 of the token, in hex' }),
      token_type: z.string(),
      label: z.enum(['true_positive', 'false_positive']),
    })
    .meta({ id: 'GithubLabel' }),
)
