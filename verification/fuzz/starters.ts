import { enterpriseUrn, patchUrn } from '@postern/contracts'
import { marker } from './pool.ts'

export const starters: Readonly<Record<string, readonly unknown[]>> = {
  'findings.change-status': [
    { to: 'cancelled', reason: 'Raised in error' },
    { to: 'open' },
    { to: 'risk_accepted', reason: 'As agreed', approver: { name: 'A' }, accepted_until: '2027-06-30' },
  ],
  'findings.create-action-plan': [{ title: 'A plan', owner: { name: 'A' }, due_date: '2030-01-31' }],
  'findings.change-action-plan-status': [
    { to: 'approved' },
    { to: 'in_progress' },
    { to: 'implemented', percent_complete: 100, note: 'Done' },
    { to: 'cancelled', reason: 'No need' },
  ],
  'findings.extend-action-plan': [{ to: '2031-01-31', reason: 'Late', approved_by: { name: 'B' } }],
  'findings.create-log-entry': [{ body: 'A note' }, { kind: 'correction', corrects_seq: 1, body: 'It was another' }],
  'keys.create': [
    { label: 'A key', expires_in: '30d', scopes: ['read:findings'] },
    { label: 'A key', expires_in: 'custom', expires_at: '2027-01-31T00:00:00+01:00', scopes: ['*'] },
  ],
  'keys.rotate': [
    { overlap: '1h' },
    { overlap: '0s', expires_in: '30d' },
    { overlap: '0s', overlap_from: 'first_use' },
  ],
  'evidence.attach': [{ test_procedures: ['ext:k1'] }, { test_procedures: [marker('id', 'test-procedures', 0)] }],
  'sync.create-webhook': [{ url: 'mailto:audit@x.example', description: 'Mail', events: ['key.*'] }],
  'sync.update-webhook': [{ state: 'disabled' }, { state: 'enabled' }],
  'sync.scim-create-user': [
    { userName: 'k1', externalId: 'k1', emails: [{ value: 'k1@x.example', type: 'work' }] },
    { userName: 'k2', active: 'False', name: { givenName: 'A' }, [enterpriseUrn]: { department: 'D', division: 'V' } },
  ],
  'sync.scim-replace-user': [{ userName: 'k3', active: false, [enterpriseUrn]: { department: 'E' } }],
  'sync.scim-patch-user': [
    change({ op: 'Replace', path: 'active', value: 'False' }),
    change({ op: 'add', path: 'emails[type eq "work"].value', value: 'k4@x.example' }, { op: 'remove', path: 'title' }),
    change({ op: 'replace', value: { displayName: 'D', [`${enterpriseUrn}:department`]: 'F' } }),
    change({ op: 'add', path: '__proto__.x', value: 1 }),
  ],
  'sync.scim-create-group': [
    { displayName: 'k1', members: [{ value: marker('id', 'Users', 0) }] },
    { displayName: 'k2', externalId: 'k2' },
  ],
  'sync.scim-replace-group': [{ displayName: 'k3', members: [{ value: marker('id', 'Groups', 1) }] }],
  'sync.scim-patch-group': [
    change({ op: 'Add', path: 'members', value: [{ value: marker('id', 'Users', 1) }] }),
    change({ op: 'remove', path: `members[value eq "${marker('id', 'Users', 0)}"]` }),
    change({ op: 'remove', path: 'members' }, { op: 'replace', value: { displayName: 'k4' } }),
  ],
}

function change(...Operations: readonly unknown[]): unknown {
  return { schemas: [patchUrn], Operations }
}
