/** The example of a list is one of its items. */
export type Word = readonly [description: string, example?: string | number]
