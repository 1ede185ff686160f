@testable import Access
