import { randomUUID } from 'node:crypto'
import type { Role } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import type { Scanner } from '../src/scan/scanner.ts'

export function person({ tenantId }: Pick<Principal, 'tenantId'>, ...roles: readonly Role[]): Principal {
  const scopes = ['read:findings', 'write:evidence']
  return { tenantId, kind: 'user', id: randomUUID(), label: `Somebody, ${roles.join(' and ')}`, scopes, roles }
}

export const findsMalware: Scanner = {
  begin: async () => {
    let text = ''
    return {
      write: async (chunk) => void (text += Buffer.from(chunk).toString('latin1')),
      finish: async () =>
        text.includes('malware')
          ? { result: 'infected', malware: 'Test.Malware', scanner: 'Test' }
          : { result: 'clean', scanner: 'Test' },
      abandon: () => undefined,
    }
  },
}
