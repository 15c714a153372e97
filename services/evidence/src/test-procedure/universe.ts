import {
  type LookupTestProceduresAnswer,
  internalPaths,
  lookupTestProceduresAnswerSchema,
} from '@postern/contracts/internal'
import {
  type ServiceAddress,
  ServiceUnavailableError,
  createServiceClient,
  serviceCaller,
} from '@postern/service-client'
import type { RequestInfo } from '@postern/service-kit'

/** Null if it does not exist. */
export type FoundTestProcedures = LookupTestProceduresAnswer['test_procedures']

export interface Universe {
  /** Rejects with a ServiceUnavailableError if it gets no usable answer. */
  lookUp(
    request: Pick<RequestInfo, 'context' | 'requestId'>,
    addresses: readonly string[],
  ): Promise<FoundTestProcedures>
  close(): Promise<void>
}

const service = 'The universe service'
const maxAnswerBytes = 64 * 1024

export function openUniverse({ url, ring, timeoutMs }: ServiceAddress): Universe {
  const { ask, close } = createServiceClient({
    service,
    baseUrl: url,
    keyName: 'evidence-universe',
    ring,
    timeoutMs,
    maxAnswerBytes,
  })
  return {
    lookUp: async (request, addresses) => {
      const { test_procedures: found } = await ask(lookupTestProceduresAnswerSchema, {
        ...serviceCaller('evidence', request),
        target: internalPaths.lookupTestProcedures,
        body: { addresses },
      })
      if (found.length !== addresses.length) {
        throw new ServiceUnavailableError(service, new Error('the answer is for other test procedures'))
      }
      return found
    },
    close,
  }
}
