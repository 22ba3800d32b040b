/** Reads the fields of the API that are an ID, or with `expand` the object itself. */

/** The value of a field of an expanded object; undefined: it is not expanded. */
export const fieldIn = (object: unknown, name: string): unknown =>
  object instanceof Object && name in object ? (object as Record<string, unknown>)[name] : undefined

/** The name of an expanded object; the ID if it is not expanded. */
export const nameIn = (object: unknown): string => String(fieldIn(object, "name") ?? object)

/** The ID of an object, expanded or not. */
export const idIn = (object: unknown): string => String(fieldIn(object, "id") ?? object)
