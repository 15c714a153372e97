import { type JSONWebKeySet, compactVerify, createLocalJWKSet, errors } from 'jose'
import { z } from 'zod'

/** RFC 7515 §4.1.9: nothing else signed with the same key passes as a checkpoint. */
export const checkpointType = 'postern-log-checkpoint'

export const checkpointSchema = z.object({
  tenant: z.uuid(),
  position: z.int().min(0),
  root: z.string().regex(/^[0-9a-f]{64}$/),
  day: z.iso.date(),
  signed_at: z.iso.datetime({ precision: 3 }),
})
export type Checkpoint = z.infer<typeof checkpointSchema>

/** Returns the content of a checkpoint, or undefined if none of the keys signed it (EdDSA). */
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
