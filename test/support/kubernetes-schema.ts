import { z } from 'zod'

const moduleSchema = z.looseObject({ validate: z.custom<Validate>((value) => typeof value === 'function') })
type Validate = ((data: unknown) => boolean) & { errors?: readonly { instancePath: string; message?: string }[] | null }

/**
 * Returns violations of the Kubernetes and Gateway API schemas. Fields that the validators never read are unknown and
 * count as violations.
 */
export async function kubernetesFaults(manifest: {
  readonly apiVersion: string
  readonly kind: string
  readonly [name: string]: unknown
}): Promise<string[]> {
  const [version = '', group = 'core'] = manifest.apiVersion.split('/').toReversed()
  const words = [group.split('.')[0] ?? '', version].map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
  const [folder, name] =
    group === 'gateway.networking.k8s.io'
      ? ['@kubernetes-models/gateway-api', `IoK8sSigsGatewayApiApis${words[1] ?? ''}${manifest.kind}`]
      : ['kubernetes-models', `IoK8sApi${words.join('')}${manifest.kind}`]
  const { validate } = moduleSchema.parse(await import(`${folder}/_schemas/${name}`))
  const unread = new Set<string>()
  const isValid = validate(watched(manifest, '', unread))
  if (!isValid) return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message ?? ''}`)
  return [...unread].toSorted().map((path) => `${path} is not a field of ${name}`)
}

/** Returns a proxy of the value that removes each read field from `unread`. */
function watched(value: unknown, path: string, unread: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item, index) => watched(item, `${path}/${index}`, unread))
  const copy = Object.fromEntries(
    Object.entries(value).map(([name, child]) => [name, watched(child, `${path}/${name}`, unread)]),
  )
  for (const name of Object.keys(copy)) unread.add(`${path}/${name}`)
  return new Proxy(copy, {
    get: (target, name) => {
      if (typeof name === 'string') unread.delete(`${path}/${name}`)
      return Reflect.get(target, name)
    },
  })
}
