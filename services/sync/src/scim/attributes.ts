import { enterpriseUrn, groupUrn, userUrn } from '@postern/contracts'

/** An attribute of a resource (RFC 7643, section 7). `multi` attributes have a list of values with `parts`. */
export interface Attribute {
  readonly name: string
  readonly type: 'string' | 'boolean' | 'complex' | 'reference'
  readonly multi?: true
  readonly required?: true
  readonly caseExact?: true
  /** `readWrite` if not set. */
  readonly mutability?: 'readOnly' | 'immutable'
  readonly unique?: true
  readonly canonicalValues?: readonly string[]
  readonly parts?: readonly Attribute[]
}

const textAttribute = (name: string): Attribute => ({ name, type: 'string' })
const textAttributes = (...names: readonly string[]): Attribute[] => names.map(textAttribute)
const primary: Attribute = { name: 'primary', type: 'boolean' }
const plural: readonly Attribute[] = [...textAttributes('value', 'display', 'type'), primary]

const uniqueValue = plural.map((part): Attribute => (part.name === 'value' ? { ...part, unique: true } : part))

export interface ResourceSchema {
  readonly urn: string
  readonly name: string
  readonly description: string
  readonly attributes: readonly Attribute[]
}

export const userSchema: ResourceSchema = {
  urn: userUrn,
  name: 'User',
  description: 'A user of the identity provider',
  attributes: [
    { name: 'externalId', type: 'string', caseExact: true, unique: true },
    { name: 'userName', type: 'string', required: true, unique: true },
    {
      name: 'name',
      type: 'complex',
      parts: textAttributes('formatted', 'familyName', 'givenName', 'middleName', 'honorificPrefix', 'honorificSuffix'),
    },
    ...textAttributes(
      'displayName',
      'nickName',
      'profileUrl',
      'title',
      'userType',
      'preferredLanguage',
      'locale',
      'timezone',
    ),
    { name: 'active', type: 'boolean' },
    // Two active users cannot have the same primary address.
    { name: 'emails', type: 'complex', multi: true, unique: true, parts: uniqueValue },
    { name: 'phoneNumbers', type: 'complex', multi: true, parts: plural },
    {
      name: 'addresses',
      type: 'complex',
      multi: true,
      parts: [
        ...textAttributes('formatted', 'streetAddress', 'locality', 'region', 'postalCode', 'country', 'type'),
        primary,
      ],
    },
  ],
}

export const enterpriseSchema: ResourceSchema = {
  urn: enterpriseUrn,
  name: 'EnterpriseUser',
  description: 'The place of a user in the organization',
  attributes: [
    ...textAttributes('employeeNumber', 'costCenter', 'organization', 'division', 'department'),
    { name: 'manager', type: 'complex', parts: textAttributes('value', 'displayName') },
  ],
}

export const groupSchema: ResourceSchema = {
  urn: groupUrn,
  name: 'Group',
  description: 'A group of the identity provider',
  attributes: [
    { name: 'externalId', type: 'string', caseExact: true },
    { name: 'displayName', type: 'string', required: true, unique: true },
    {
      name: 'members',
      type: 'complex',
      multi: true,
      parts: [
        { name: 'value', type: 'string', caseExact: true, mutability: 'immutable' },
        { name: 'display', type: 'string', mutability: 'readOnly' },
        { name: 'type', type: 'string', mutability: 'immutable', canonicalValues: ['User', 'Group'] },
        { name: '$ref', type: 'reference', mutability: 'immutable' },
      ],
    },
  ],
}
