/** Bytes of a hash that are held in memory: what they say is held against the whole hash in the database. */
export const heldBytes = 8

/**
 * The hashes of a connector's rows, so that a row that is as it was can be told while its source is read. Eight bytes a row, in
 * a table twice as large: 16 MiB of a million rows.
 */
export class Remembered {
  readonly #slots: Uint32Array
  readonly #mask: number

  constructor(count: number) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(16, count * 2)))
    this.#slots = new Uint32Array(size * 2)
    this.#mask = size - 1
  }

  /** Adds hashes that stand one behind the other, `heldBytes` of each. */
  add(hashes: Buffer): void {
    for (let at = 0; at + heldBytes <= hashes.length; at += heldBytes) {
      const slot = this.#find(hashes, at)
      this.#slots[slot * 2] = hashes.readUInt32LE(at)
      this.#slots[slot * 2 + 1] = hashes.readUInt32LE(at + 4)
    }
  }

  has(hash: Buffer): boolean {
    const slot = this.#find(hash, 0)
    return this.#slots[slot * 2] !== 0 || this.#slots[slot * 2 + 1] !== 0
  }

  /** Where the hash stands, or would. One of zeros alone is never found, which is no harm. */
  #find(hashes: Buffer, at: number): number {
    const [low, high] = [hashes.readUInt32LE(at), hashes.readUInt32LE(at + 4)]
    let slot = low & this.#mask
    for (;;) {
      const [one, other] = [this.#slots[slot * 2], this.#slots[slot * 2 + 1]]
      if ((one === low && other === high) || (one === 0 && other === 0)) return slot
      slot = (slot + 1) & this.#mask
    }
  }
}
