package archive

// Stepping is Run that tells step what it has just done: "file", "row" or "gone". An error ends it there.
var Stepping = run
