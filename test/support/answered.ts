/** The parsed answer, open to any check: a test finds out its shape. */
export type Answered = ReturnType<JSON['parse']>;
