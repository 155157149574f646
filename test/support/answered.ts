/** What is parsed from an answer, to be looked into: its shape is what a test finds out. */
export type Answered = ReturnType<JSON['parse']>;
