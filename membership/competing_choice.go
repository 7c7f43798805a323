package membership

// youngSlots bounds what is given up without an operator: a branch of fewer slots, or one that
// never had a second member.
const youngSlots = 16
