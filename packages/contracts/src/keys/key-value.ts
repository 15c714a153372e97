import { z } from 'zod'

export const keyValueSchema = z.string().regex(/^postern_[0-9A-Za-z]{49}$/, {
  message: 'must be a whole API key: `postern_` and 49 letters and digits',
})

export const findApiKeyBodySchema = z
  .strictObject({ key: keyValueSchema.meta({ description: 'The value of the key. It is neither stored nor logged.' }) })
  .meta({ id: 'FindApiKey' })
