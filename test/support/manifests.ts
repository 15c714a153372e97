import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'

/** A Kubernetes object. */
export type Manifest = z.infer<typeof manifestSchema>

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
})

/** Parses every document of a YAML text. Throws on violations of YAML 1.2, including duplicate keys. */
export function parseYaml(text: string, path: string): unknown[] {
  return parseAllDocuments(text, { strict: true, uniqueKeys: true }).map((document) => {
    const [problem] = [...document.errors, ...document.warnings]
    if (problem !== undefined) throw new Error(`${path}: ${problem.message}`)
    return document.toJS()
  })
}

/** Returns the objects of a kustomization's files without its transformations. */
export function readResources(folder: string): Manifest[] {
  const path = join(folder, 'kustomization.yaml')
  const { resources } = z
    .looseObject({ resources: z.array(z.string()) })
    .parse(parseYaml(readFileSync(path, 'utf8'), path)[0])
  return resources
    .filter((name) => name.endsWith('.yaml'))
    .flatMap((name) => toManifests(readFileSync(join(folder, name), 'utf8'), name))
}

/** Returns what `kubectl apply --kustomize` would send. `kubectl` is the path of the program; no cluster is used. */
export function renderOverlay(kubectl: string, folder: string): Manifest[] {
  const result = spawnSync(kubectl, ['kustomize', folder], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (result.status !== 0) throw new Error(`kubectl kustomize ${folder}: ${result.stderr}`)
  return toManifests(result.stdout, folder)
}

function toManifests(text: string, path: string): Manifest[] {
  return parseYaml(text, path).map((document) => manifestSchema.parse(document))
}

const environmentSchema = z.array(z.object({ name: z.string(), value: z.string() })).default([])
const containerSchema = z.looseObject({
  name: z.string(),
  image: z.string(),
  args: z.array(z.string()).default([]),
  env: environmentSchema,
  resources: z.object({
    requests: z.object({ cpu: z.string(), memory: z.string() }),
    limits: z.object({ cpu: z.string(), memory: z.string() }),
  }),
  securityContext: z.unknown().optional(),
  readinessProbe: z.unknown().optional(),
  livenessProbe: z.unknown().optional(),
})
const podSchema = z.looseObject({
  automountServiceAccountToken: z.boolean().optional(),
  enableServiceLinks: z.boolean().optional(),
  securityContext: z.looseObject({ runAsNonRoot: z.boolean(), runAsUser: z.number() }),
  initContainers: z.array(containerSchema).default([]),
  containers: z.array(containerSchema),
  volumes: z.array(z.looseObject({ name: z.string() })).default([]),
})
const workloadSchema = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      metadata: z.looseObject({ labels: z.record(z.string(), z.string()) }),
      spec: podSchema,
    }),
  }),
})

export interface Workload {
  readonly kind: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly pod: z.infer<typeof podSchema>
}

/** Returns everything that creates pods. */
export function workloadsOf(manifests: readonly Manifest[]): Workload[] {
  return manifests
    .filter((manifest) => 'template' in Object(manifest['spec']))
    .map((manifest) => {
      const { template } = workloadSchema.parse(manifest).spec
      return {
        kind: manifest.kind,
        name: manifest.metadata.name,
        labels: template.metadata.labels,
        pod: template.spec,
      }
    })
}

const peerSchema = z.strictObject({
  podSelector: z.strictObject({ matchLabels: z.record(z.string(), z.string()) }).optional(),
  namespaceSelector: z.strictObject({ matchLabels: z.record(z.string(), z.string()) }).optional(),
  ipBlock: z.strictObject({ cidr: z.string() }).optional(),
})
const portsSchema = z.array(z.strictObject({ port: z.number(), protocol: z.string().optional() })).min(1)
const policySchema = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.strictObject({
    podSelector: z.strictObject({
      matchLabels: z.record(z.string(), z.string()).optional(),
      matchExpressions: z
        .array(z.strictObject({ key: z.string(), operator: z.enum(['In', 'NotIn']), values: z.array(z.string()) }))
        .optional(),
    }),
    policyTypes: z.array(z.enum(['Ingress', 'Egress'])),
    ingress: z.array(z.strictObject({ from: z.array(peerSchema).min(1), ports: portsSchema })).default([]),
    egress: z.array(z.strictObject({ to: z.array(peerSchema).min(1), ports: portsSchema })).default([]),
  }),
})
export type NetworkPolicy = z.infer<typeof policySchema>

export function networkPoliciesOf(manifests: readonly Manifest[]): NetworkPolicy[] {
  return manifests.filter(({ kind }) => kind === 'NetworkPolicy').map((manifest) => policySchema.parse(manifest))
}

/** Formats the peer of a rule: the name of a pod, `namespace:…`, or an address range. */
function peerName({ podSelector, namespaceSelector, ipBlock }: z.infer<typeof peerSchema>): string {
  if (ipBlock !== undefined) return ipBlock.cidr
  const pod = podSelector?.matchLabels['app.kubernetes.io/name']
  const namespace = Object.values(namespaceSelector?.matchLabels ?? {})[0]
  return namespace === undefined ? (pod ?? 'anybody') : `namespace:${namespace}`
}

/** Returns the pods that a policy selects: their names, or `*`. */
function subjectsOf({ spec: { podSelector } }: NetworkPolicy): string[] {
  const name = podSelector.matchLabels?.['app.kubernetes.io/name']
  const names = (podSelector.matchExpressions ?? []).flatMap(({ operator, values }) =>
    operator === 'In' ? values : [],
  )
  return name === undefined ? (names.length > 0 ? names : ['*']) : [name]
}

/** Returns every allowed connection in a direction as `from > to:port`, without the name service. */
export function arrowsOf(manifests: readonly Manifest[], direction: 'egress' | 'ingress'): string[] {
  const found = networkPoliciesOf(manifests).flatMap((policy) =>
    subjectsOf(policy).flatMap((subject) =>
      direction === 'egress'
        ? policy.spec.egress.flatMap(({ to, ports }) =>
            to.flatMap((peer) => ports.map(({ port }) => `${subject} > ${peerName(peer)}:${port}`)),
          )
        : policy.spec.ingress.flatMap(({ from, ports }) =>
            from.flatMap((peer) => ports.map(({ port }) => `${peerName(peer)} > ${subject}:${port}`)),
          ),
    ),
  )
  return found.filter((arrow) => !/^\* > namespace:kube-system:53$/.test(arrow)).toSorted()
}

/** Returns the table "Who calls whom" of docs/architecture.md as pairs. */
export function drawnArrows(): (readonly [string, string])[] {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'architecture.md'), 'utf8')
  const section = text.split('\n## Who calls whom\n')[1]?.split('\n## ')[0] ?? ''
  const rows = [...section.matchAll(/^\| ([a-z, ]+) \| ([a-z, ]+) \|/gm)].filter(([, from]) => from !== 'from')
  return rows.flatMap(([, from = '', to = '']) =>
    from.split(', ').flatMap((one) => to.split(', ').map((other) => [one, other] as const)),
  )
}
