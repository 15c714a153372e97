export { type CacheCodec, type EncodedRecord, createCacheCodec } from './codec.ts'
export { storeRecordScript } from './store-record.ts'
