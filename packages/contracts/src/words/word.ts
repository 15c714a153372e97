/** A description for readers of the OpenAPI document, and an example: of the items if it is a list. */
export type Word = readonly [description: string, example?: string | number]
