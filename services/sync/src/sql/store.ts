// Only stores import tenant-db.
export { getRow, sqlError, statement } from '@postern/tenant-db'
