import { type ParsedItem, type ResourceAddress, parseResourceAddress, resourceAddressSchema } from '@postern/contracts'
import { type Current, ProblemError, type RequestInfo, inputErrors, parseChange } from '@postern/service-kit'
import type { TenantDb, Tx } from '@postern/tenant-db'
import { z } from 'zod'
import { invalidContent } from '../request.ts'
import { assertItemVersion, requireItemVersion } from './run.ts'

export type BulkItem<Item> =
  | { readonly ok: true; readonly item: Item }
  | { readonly ok: false; readonly problem: ProblemError }

const addressing = {
  id: resourceAddressSchema.optional(),
  external_id: z.string().nullish(),
  version: z.int().optional(),
}
const addressingSchema = z.object(addressing)
type Addressing = z.output<typeof addressingSchema>

/** Returns undefined if the item can only be new. */
export function addressOf({ id, external_id }: Omit<Addressing, 'version'>): ResourceAddress | undefined {
  if (id !== undefined) return parseResourceAddress(id)
  return external_id === undefined || external_id === null ? undefined : { by: 'external-id', externalId: external_id }
}

export interface ItemKind<Item> {
  readonly schema: z.ZodType<Item>
  readonly computed: readonly string[]
  find(tx: Tx, address: ResourceAddress): Promise<(Omit<Current, 'confirm'> & { readonly version: number }) | undefined>
}

/** Like the body of a PATCH, an item can be a whole resource that the caller has read. */
export async function parseItems<Item>(
  items: readonly ParsedItem<Item>[],
  { db, context }: { readonly db: TenantDb } & Pick<RequestInfo, 'context'>,
  kind: ItemKind<Item>,
): Promise<BulkItem<Item>[]> {
  const parse = async (tx: Tx, item: ParsedItem<Item>): Promise<BulkItem<Item>> =>
    item.ok ? item : await parseSentBack(tx, item, kind)
  return await db.read(context, async (tx) => await Promise.all(items.map(async (item) => await parse(tx, item))))
}

async function parseSentBack<Item>(
  tx: Tx,
  { value, error }: ParsedItem<Item> & { readonly ok: false },
  { schema, computed, find }: ItemKind<Item>,
): Promise<BulkItem<Item>> {
  const invalid = { ok: false, problem: invalidContent(inputErrors(error, 'body', { value, schema })) } as const
  const { data } = addressingSchema.safeParse(value)
  const address = data && addressOf(data)
  const stored = address && (await find(tx, address))
  if (data === undefined || stored === undefined) return invalid
  const confirm = (): void => {
    requireItemVersion(data)
    assertItemVersion(data.version, stored.version)
  }
  const current = { ...stored, addressing: Object.keys(addressing), confirm }
  try {
    const parsed = parseChange({ schema, value, path: undefined }, current, computed)
    return 'body' in parsed ? { ok: true, item: parsed.body } : invalid
  } catch (refused) {
    if (refused instanceof ProblemError) return { ok: false, problem: refused }
    throw refused
  }
}
