import { type JSONWebKeySet, compactVerify, createLocalJWKSet, errors } from 'jose'
import { z } from 'zod'

/** Told apart by `typ` (RFC 7515 §4.1.9): nothing else that the key may sign can pass for a checkpoint. */
export const checkpointType = 'postern-log-checkpoint'

/** What a checkpoint says: the log of the tenant ended in `root` at `position` when it was signed. */
export const checkpointSchema = z.object({
  tenant: z.uuid(),
  position: z.int().min(0),
  root: z.string().regex(/^[0-9a-f]{64}$/),
  day: z.iso.date(),
  signed_at: z.iso.datetime({ precision: 3 }),
})
export type Checkpoint = z.infer<typeof checkpointSchema>

/** The content of a checkpoint (compact JWS, EdDSA) that one of the keys has signed; undefined where none has. */
export async function verifyCheckpoint(jws: string, keys: JSONWebKeySet): Promise<Checkpoint | undefined> {
  try {
    const { payload, protectedHeader } = await compactVerify(jws, createLocalJWKSet(keys), { algorithms: ['EdDSA'] })
    if (protectedHeader.typ !== checkpointType) return undefined
    return checkpointSchema.safeParse(JSON.parse(new TextDecoder().decode(payload))).data
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof SyntaxError) return undefined
    throw error
  }
}
