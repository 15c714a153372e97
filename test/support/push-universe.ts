import { expect } from 'vitest'
import { send } from './http.ts'

/** Pushes one resource of each kind: entities, people, test procedures and a hierarchy. */
export async function pushUniverse(gateway: string, key: string): Promise<void> {
  for (const [dataset, body] of [
    [
      'entities',
      [
        { external_id: 'pay', name: 'Payments', type: 'process' },
        { external_id: 'fx', name: 'FX', type: 'process', parent_external_id: 'pay' },
      ],
    ],
    ['people', [{ external_id: 'ada', name: 'Ada Lund', email: 'ada.lund@harbourline.example' }]],
    ['test-procedures', [{ external_id: 'rec', title: 'Recertification' }]],
    [
      'org-structures/legal',
      { name: 'Legal', kind: 'legal_entity', mode: 'full', nodes: [{ node_key: 'bank', name: 'Bank' }] },
    ],
  ] as const) {
    const pushed = await send(gateway, `/api/v1/sync/${dataset}`, { key, method: 'POST', body })
    expect(pushed.status, pushed.text).toBe(200)
  }
}
