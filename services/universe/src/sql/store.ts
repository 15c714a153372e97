// Only stores import tenant-db.
export { type Statement, arrayLiteral, getRow, statement } from '@postern/tenant-db'
