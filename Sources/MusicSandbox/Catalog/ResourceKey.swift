/// What names a resource: type and identifier together.
struct ResourceKey: Sendable, Hashable {
  let type: ResourceType
  let id: String

  init(_ type: ResourceType, _ id: String) {
    (self.type, self.id) = (type, id)
  }
}
